package sql

import (
	"context"
	stdsql "database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the session advisory lock that all migrators of one database
// queue on: River's migrator takes none of its own, and goose's would not cover
// River's. The number is arbitrary and must never change.
const migrationLock = 7_210_953_318

// versionTable records our migrations. goose's default name may be another application's.
const versionTable = "holdfast_schema_version"

// lockPoll is how often a migrator that must wait asks again. Asking, instead of
// blocking on the lock, leaves no statement open that CREATE INDEX CONCURRENTLY
// would have to wait for.
const lockPoll = 200 * time.Millisecond

// connectTimeout is for each host of the address: one that is silent is passed over.
const connectTimeout = 5 * time.Second

// Migrate brings the database to this program's version, River's tables included.
// Any number of processes may call it at once. The connection must be a session of
// its own: no transaction pooler in between.
func Migrate(ctx context.Context, databaseURL string) error {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("read database address: %w", err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	setSession(config.ConnConfig.RuntimeParams)
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := lock(ctx, conn); err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer pool.Close()
	if err := checkForeign(ctx, pool); err != nil {
		return err
	}
	if err := migrateRiver(ctx, pool); err != nil {
		return err
	}
	return migrateOwn(ctx, pool)
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

func lock(ctx context.Context, conn *pgx.Conn) error {
	for {
		var held bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&held); err != nil {
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

// ErrVersion says that the database is not of this program's version.
var ErrVersion = errors.New("database is of another version")

// CheckVersion returns [ErrVersion], with both versions in its text, where the
// database is older or newer than this program.
func CheckVersion(ctx context.Context, pool *pgxpool.Pool) error {
	// Asking for the version would make its table.
	var made bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&made); err != nil {
		return fmt.Errorf("read database version: %w", err)
	}
	if !made {
		return fmt.Errorf("%w: there is no Holdfast in it", ErrVersion)
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
		return fmt.Errorf("%w: it has %d, this program needs %d", ErrVersion, has, wants)
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
