package sql

import (
	"context"
	stdsql "database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock that all migrators of one database wait for: River's migrator takes none of its own, and goose's would not cover
// River's. The number is arbitrary and must never change.
const migrationLock = 7_210_953_318

// versionTable records our migrations. goose's default name may be another application's.
const versionTable = "holdfast_schema_version"

// lockPoll is how often a migrator that must wait tries again. Trying, instead of blocking
// on the lock, leaves no statement open that CREATE INDEX CONCURRENTLY would wait for.
const lockPoll = 200 * time.Millisecond

// connectTimeout is for each host of the URL: the next one is tried after it.
const connectTimeout = 5 * time.Second

// Migrate migrates the database to this program's version, River's tables included. Any
// number of processes may call it at once. A transaction pooler may be in between: the lock
// is a transaction's, so it stays on one of the server's connections.
func Migrate(ctx context.Context, databaseURL string) error {
	pool, err := openPool(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer pool.Close()
	// Read committed: this transaction must keep no snapshot while others create indexes.
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := lock(ctx, tx); err != nil {
			return err
		}
		if err := checkForeign(ctx, pool); err != nil {
			return err
		}
		if err := migrateRiver(ctx, pool); err != nil {
			return err
		}
		return migrateOwn(ctx, pool)
	})
}

// openPool opens sessions without limits, whatever the database or role has as its default;
// behind a pooler, which accepts no settings of a session, as they come.
func openPool(ctx context.Context, databaseURL string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	direct := config.Copy()
	setSession(direct.ConnConfig.RuntimeParams)
	conn, err := pgx.ConnectConfig(ctx, direct.ConnConfig)
	switch {
	case err == nil:
		config = direct
		err = conn.Close(ctx)
	case refusesSettings(err):
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	config.MaxConns = max(config.MaxConns, 2) // one holds the lock
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	return pool, nil
}

// refusesSettings recognizes PgBouncer by its error about a session's own settings.
func refusesSettings(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && strings.Contains(pgErr.Message, "unsupported startup parameter")
}

// setSession overrides what the database or role may have set: a migration takes as long as
// it takes, and River's add enum values that a later transaction must see.
func setSession(params map[string]string) {
	for name, value := range map[string]string{
		"application_name":              "holdfast migrate",
		"default_transaction_isolation": "read committed",
		"statement_timeout":             "0",
		"lock_timeout":                  "0",
	} {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
}

// ErrForeign is returned for a database in which another application has a table with the
// name of one of ours.
var ErrForeign = errors.New("the database holds another application's table")

// checkForeign runs before anything is created: a migration that stops halfway would leave
// River's tables in another application's database.
func checkForeign(ctx context.Context, pool *pgxpool.Pool) error {
	var table *string
	err := pool.QueryRow(ctx, `
		SELECT (SELECT name FROM unnest(ARRAY['account', 'deposit', 'transaction_history', 'outbox', 'alert']) AS t (name)
		        WHERE to_regclass(name) IS NOT NULL LIMIT 1)
		WHERE to_regclass($1) IS NULL`, versionTable).Scan(&table)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("look for tables: %w", err)
	}
	if table != nil {
		return fmt.Errorf("%w %q: give Holdfast a database or a schema of its own", ErrForeign, *table)
	}
	return nil
}

// lock waits for other migrators. The transaction is idle for as long as the migration takes,
// and must keep no snapshot, which CREATE INDEX CONCURRENTLY would wait for. The extended
// protocol would keep that of its last statement.
func lock(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	for {
		var held bool
		err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", pgx.QueryExecModeSimpleProtocol, int64(migrationLock)).Scan(&held)
		if err != nil {
			return fmt.Errorf("lock migrations: %w", err)
		}
		if held {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock migrations: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}

func migrateRiver(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("migrate river: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate river: %w", err)
	}
	return nil
}

func migrateOwn(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func newProvider(db *stdsql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versionTable))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return provider, nil
}

// ErrVersion is returned if the database's schema is not this program's.
var ErrVersion = errors.New("schema version mismatch")

// CheckVersion returns [ErrVersion], with both versions in its text, if the database is
// older or newer than this program.
func CheckVersion(ctx context.Context, pool *pgxpool.Pool) error {
	// GetVersions would create the table.
	var exists bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&exists); err != nil {
		return fmt.Errorf("read database version: %w", err)
	}
	if !exists {
		return fmt.Errorf("%w: the database has no Holdfast schema", ErrVersion)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	has, wants, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read database version: %w", err)
	}
	if has != wants {
		return fmt.Errorf("%w: the database has %d, this program needs %d", ErrVersion, has, wants)
	}
	return checkRiver(ctx, pool)
}

func checkRiver(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return fmt.Errorf("read river version: %w", err)
	}
	result, err := migrator.Validate(ctx, nil)
	if err != nil {
		return fmt.Errorf("read river version: %w", err)
	}
	if !result.OK {
		return fmt.Errorf("%w: river: %v", ErrVersion, result.Messages)
	}
	return nil
}
