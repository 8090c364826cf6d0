package app

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/config"
	"holdfast/internal/localpg"
	"holdfast/postgres"
	"holdfast/sql"
)

// An Opener opens the database for a command. The function it returns must be called after
// use.
type Opener func(ctx context.Context, c config.Config) (*pgxpool.Pool, func(), error)

// OpenDatabase opens the database that the settings name, or else the one in the data dir,
// whether or not it is running. It creates none: every query on a database that a typing
// error has just created has a reassuring answer.
func OpenDatabase(ctx context.Context, c config.Config) (*pgxpool.Pool, func(), error) {
	if c.DatabaseURL == "" && !localpg.Exists(c.DataDir) {
		return nil, nil, fmt.Errorf("no Holdfast database in %s: set HOLDFAST_DATA_DIR or HOLDFAST_DATABASE_URL", c.DataDir)
	}
	return CreateDatabase(ctx, c)
}

// CreateDatabase is OpenDatabase for the commands that come first on a new database: the
// private one is created if missing, and migrated. An external database with another schema
// version is an error.
func CreateDatabase(ctx context.Context, c config.Config) (*pgxpool.Pool, func(), error) {
	url, leave, err := DatabaseURL(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	pool, err := openCommandPool(ctx, url)
	if err != nil {
		leave()
		return nil, nil, err
	}
	closeAll := func() { pool.Close(); leave() }
	if err := ensureVersion(ctx, c, url, pool); err != nil {
		closeAll()
		return nil, nil, err
	}
	return pool, closeAll, nil
}

// openCommandPool sets no limits: an audit of a long history takes its time.
func openCommandPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	pooled, err := postgres.BehindPooler(ctx, url)
	if err != nil {
		return nil, err
	}
	return postgres.OpenPool(ctx, url, postgres.PoolParams{Name: "command", Size: 2, Pooled: pooled})
}

func ensureVersion(ctx context.Context, c config.Config, url string, pool *pgxpool.Pool) error {
	if c.DatabaseURL == "" {
		return sql.Migrate(ctx, url)
	}
	return checkVersion(ctx, pool)
}

// DatabaseURL returns the URL of the database, and a function that must be called after
// use. A private one that is already running is shared; otherwise it runs during this use.
func DatabaseURL(ctx context.Context, c config.Config) (url string, leave func(), err error) {
	if c.DatabaseURL != "" {
		return c.DatabaseURL, func() {}, nil
	}
	server, err := localpg.Attach(ctx, localpg.Config{DataDir: c.DataDir})
	if err != nil {
		return "", nil, fmt.Errorf("private Postgres: %w", err)
	}
	return server.URL(), func() { _ = server.Stop(context.WithoutCancel(ctx)) }, nil
}

// DatabaseName names the database that pool is connected to: the settings may list several
// hosts.
func DatabaseName(ctx context.Context, c config.Config, pool *pgxpool.Pool) (name string, err error) {
	if c.DatabaseURL == "" {
		return "the private Postgres in " + c.DataDir, nil
	}
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		var database string
		if err := conn.QueryRow(ctx, "SELECT current_database()").Scan(&database); err != nil {
			return err
		}
		name = database + " on " + conn.Conn().PgConn().Conn().RemoteAddr().String()
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("ask for the database's name: %w", err)
	}
	return name, nil
}
