package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/localpg"
	"holdfast/postgres"
	"holdfast/sql"
)

// startPostgres runs the private Postgres where no database is set.
func (n *node) startPostgres(ctx context.Context) error {
	if n.url != "" {
		return nil
	}
	server, err := localpg.Start(ctx, localpg.Config{DataDir: n.config.DataDir, Log: n.log})
	if errors.Is(err, localpg.ErrInUse) {
		return fmt.Errorf("private Postgres: %w; several processes share a database that HOLDFAST_DATABASE_URL names", err)
	}
	if err != nil {
		return fmt.Errorf("private Postgres: %w", err)
	}
	if n.role != RoleAll {
		n.log.Warn("no process with the other role can join on the private Postgres",
			"role", n.role, "try", "HOLDFAST_DATABASE_URL")
	}
	n.onStop("Postgres", server.Stop)
	n.url, n.direct = server.URL(), server.URL()
	return nil
}

// reachDatabase waits for the database, and detects a pooler in front of it. Only LISTEN
// needs the direct connection: without it events are found by polling.
func (n *node) reachDatabase(ctx context.Context) (err error) {
	if err := postgres.Await(ctx, n.url, n.log); err != nil {
		return err
	}
	if n.pooled, err = postgres.BehindPooler(ctx, n.url); err != nil {
		return err
	}
	if n.url == n.direct {
		if n.pooled {
			n.log.Warn("the database is behind a pooler that keeps no sessions", "try", "HOLDFAST_LISTEN_DATABASE_URL")
		}
		return nil
	}
	if err := postgres.PingPrimary(ctx, n.direct); err != nil {
		n.log.Warn("HOLDFAST_LISTEN_DATABASE_URL is unreachable", "error", err)
	}
	return ctx.Err()
}

// migrate migrates the database to this version, unless it must not, and refuses one that
// purchases must not be recorded in.
func (n *node) migrate(ctx context.Context) error {
	if !n.noMigrate {
		if err := sql.Migrate(ctx, n.url); err != nil {
			return err
		}
	}
	pool, err := postgres.OpenPool(ctx, n.url, postgres.PoolParams{Name: "start", Size: 1, Pooled: n.pooled})
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := checkVersion(ctx, pool); err != nil {
		return err
	}
	if n.pooled {
		if err := postgres.CheckPooled(ctx, pool); err != nil {
			return err
		}
	}
	return sql.CheckSequences(ctx, pool)
}

func checkVersion(ctx context.Context, pool *pgxpool.Pool) error {
	err := sql.CheckVersion(ctx, pool)
	if errors.Is(err, sql.ErrVersion) {
		return fmt.Errorf("%w (see holdfast migrate)", err)
	}
	return err
}

// openPools opens a pool for each kind of work that this role does. All of them use the main
// URL, the workers' too: passes must go on while the direct connection is unavailable, and a
// job that River is not notified of starts at its next poll.
func (n *node) openPools(ctx context.Context) (err error) {
	requests, work := int32(postgres.RequestPoolSize), int32(postgres.WorkPoolSize)
	if !n.serves() {
		requests = postgres.SidePoolSize
	}
	if !n.works() {
		work = postgres.SidePoolSize
	}
	for _, open := range []struct {
		pool **pgxpool.Pool
		url  string
		p    postgres.PoolParams
	}{
		{&n.requests, n.url, postgres.PoolParams{Name: "requests", Size: requests, Limits: postgres.RequestLimits, Pooled: n.pooled}},
		{&n.work, n.url, postgres.PoolParams{Name: "work", Size: work, Limits: postgres.WorkLimits, Pooled: n.pooled}},
		{&n.relay, n.url, postgres.PoolParams{Name: "relay", Size: postgres.RelayPoolSize, Limits: postgres.WorkLimits, Pooled: n.pooled}},
	} {
		open.p.Serving = true
		if *open.pool, err = postgres.OpenPool(ctx, open.url, open.p); err != nil {
			return err
		}
		pool := *open.pool
		n.onStop("pool "+open.p.Name, func(ctx context.Context) error { return closePool(ctx, pool) })
	}
	return nil
}

// closePool waits for connections that are still in use no longer than it may: they
// end with the process.
func closePool(ctx context.Context, pool *pgxpool.Pool) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d connections still in use", pool.Stat().AcquiredConns())
	}
}
