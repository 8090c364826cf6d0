package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/localpg"
	"holdfast/sql"
)

// awayBound is how long a start waits for a database that is not there yet: services
// that start together find each other in this time, and a wrong address is told soon.
const (
	awayBound = 30 * time.Second
	awayPoll  = 250 * time.Millisecond
)

// awaitDatabase waits until the database takes connections. What waiting cannot mend, a
// refused password, an unknown database, fails at once.
func awaitDatabase(ctx context.Context, url string, log *slog.Logger) error {
	deadline := time.Now().Add(awayBound)
	for told := false; ; told = true {
		err := greet(ctx, url)
		if err == nil || !mayPass(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		if !told {
			log.WarnContext(ctx, "waiting for the database", "at_most", awayBound.String(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(awayPoll):
		}
	}
}

// greet wants a server that takes writes: a standby may be on its way to become one.
func greet(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read database address: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.Close(ctx)
}

// mayPass reports whether a failure to connect may go away by itself. Of what the server
// says, only "starting up", "shutting down" and "too many" do.
func mayPass(err error) bool {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		return true
	}
	return strings.HasPrefix(said.Code, "57P") || strings.HasPrefix(said.Code, "53")
}

// An opener gives a command the database for a moment, and what to call after its use.
type opener func(ctx context.Context, c config) (*pgxpool.Pool, func(), error)

// openDatabase opens the database that the settings name, else the data dir's, running or
// not. It makes none: of one that a slip in a setting has just made, every question has a
// reassuring answer.
func openDatabase(ctx context.Context, c config) (*pgxpool.Pool, func(), error) {
	if c.DatabaseURL == "" && !localpg.Exists(c.DataDir) {
		return nil, nil, fmt.Errorf("no Holdfast database in %s: set HOLDFAST_DATA_DIR or HOLDFAST_DATABASE_URL", c.DataDir)
	}
	return makeDatabase(ctx, c)
}

// makeDatabase is openDatabase for the commands that a new database begins with: the
// private one is made where it is missing, and brought to this version; a foreign one of
// another version is refused.
func makeDatabase(ctx context.Context, c config) (*pgxpool.Pool, func(), error) {
	url, leave, err := databaseFor(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	// As if pooled: few statements, and it may be.
	pool, err := openPool(ctx, url, poolParams{Name: "command", Size: 2, Pooled: true})
	if err != nil {
		leave()
		return nil, nil, err
	}
	closeAll := func() { pool.Close(); leave() }
	if err := fit(ctx, c, url, pool); err != nil {
		closeAll()
		return nil, nil, err
	}
	return pool, closeAll, nil
}

func fit(ctx context.Context, c config, url string, pool *pgxpool.Pool) error {
	if c.DatabaseURL == "" {
		return sql.Migrate(ctx, url)
	}
	err := sql.CheckVersion(ctx, pool)
	if errors.Is(err, sql.ErrVersion) {
		return fmt.Errorf("%w (see holdfast migrate)", err)
	}
	return err
}

// databaseFor returns the address of the database, and what must be called after its
// use. A private one that runs already is shared, else it runs for this use.
func databaseFor(ctx context.Context, c config) (url string, leave func(), err error) {
	if c.DatabaseURL != "" {
		return c.ListenURL, func() {}, nil // the direct way where there is one
	}
	server, err := localpg.Attach(ctx, localpg.Config{DataDir: c.DataDir})
	if err != nil {
		return "", nil, fmt.Errorf("private Postgres: %w", err)
	}
	return server.URL(), func() { _ = server.Stop(context.WithoutCancel(ctx)) }, nil
}

// nameDatabase says which database was asked: of the hosts that the settings may list, the
// one that answered.
func nameDatabase(ctx context.Context, c config, pool *pgxpool.Pool) (name string, err error) {
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
