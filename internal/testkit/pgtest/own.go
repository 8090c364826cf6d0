package pgtest

import (
	"context"
	"errors"
	"os"
	"testing"

	"holdfast/internal/localpg"
	"holdfast/sql"
)

// Cluster is a Postgres of one test's own, to stop and start under the code that is
// tested. Its settings are the product's: commits are on disk.
type Cluster struct {
	dir    string
	server *localpg.Server
}

// Own starts a cluster that goes with the test, with a migrated database in it. It
// costs some seconds: New is for all tests that leave the server alone.
func Own(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{dir: tempDir(t)}
	c.Start(t)
	t.Cleanup(func() { c.Stop(t) })
	if err := sql.Migrate(t.Context(), c.URL()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return c
}

// tempDir is short, and open to the user that Postgres runs as under root.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-own-") //nolint:usetesting // TempDir's parent is closed to others, and too long.
	if err != nil {
		t.Fatalf("make data dir: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove data dir: %v", err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatalf("open data dir: %v", err)
	}
	return dir
}

// URL is the address of the migrated database. It outlives a restart.
func (c *Cluster) URL() string { return c.server.URL() }

// PID is the postmaster's, for a test that kills it.
func (c *Cluster) PID() int { return c.server.PID() }

// Start starts a stopped cluster.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := localpg.Attach(ctx, localpg.Config{DataDir: c.dir})
	if err == nil && server.Started() {
		err = keep(c.dir)
	}
	if err != nil {
		t.Fatalf("start cluster: %v", err)
	}
	c.server = server
}

// Stop cuts all connections and stops the cluster in order.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.server.Stop(ctx); err != nil {
		t.Errorf("stop cluster: %v", err)
	}
}

// Crash stops the cluster as a crash does: the next start recovers from the log.
func (c *Cluster) Crash(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.server.Crash(ctx); err != nil {
		t.Errorf("crash cluster: %v", err)
	}
}

// Restart crashes the cluster and starts it again.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Crash(t)
	c.Start(t)
}

// CleanUp stops, at the end of the test, the private
// Postgres that the program left running in a data folder (kill -9 does that).
func CleanUp(t testing.TB, dataDir string) {
	t.Helper()
	if err := os.MkdirAll(dataDir, 0o711); err != nil {
		t.Fatalf("make data dir: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := localpg.StopUnused(ctx, dataDir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stop private postgres: %v", err)
		}
	})
}
