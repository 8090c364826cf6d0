package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// poolSize is the most connections of one test's pool.
	poolSize = 16
	// patience bounds each step of setting a database up or down. A busy machine
	// may need a while for the first one.
	patience = 2 * time.Minute
	// closing bounds the wait for connections that a test still holds.
	closing = 10 * time.Second
)

// New returns a pool on a fresh, migrated database, which goes with the test.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Pool(t, NewURL(t))
}

// NewURL returns the address of a fresh, migrated database, which goes with the test.
func NewURL(t testing.TB) string {
	t.Helper()
	return database(t, clone)
}

// Empty returns the address of a fresh database without any tables, which goes with
// the test.
func Empty(t testing.TB) string {
	t.Helper()
	return database(t, empty)
}

// Pool opens a pool, which is closed at the end of the test. A connection that the
// test has not given back by then is the test's error.
func Pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("read database URL: %v", err)
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closing):
		t.Errorf("the test still holds %d connections of its pool", pool.Stat().AcquiredConns())
	}
}

func database(t testing.TB, create func(context.Context, *cluster, string) error) string {
	t.Helper()
	shared, err := shared()
	if err != nil {
		t.Fatalf("start test cluster: %v", err)
	}
	name := newName()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := create(ctx, shared, name); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	t.Cleanup(func() { drop(t, shared, name) })
	return shared.url(name)
}

func drop(t testing.TB, shared *cluster, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := shared.exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		t.Errorf("drop test database: %v", err)
	}
}
