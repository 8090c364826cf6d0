package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testkit/pgtest"
	"holdfast/postgres"
)

// pgBouncer starts a real PgBouncer in transaction mode for a database and returns the URL
// through it.
func pgBouncer(t *testing.T, database string) (pooled string) {
	t.Helper()
	direct, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	socket := direct.Query().Get("host")
	dir := sharedDir(t, socket)
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
holdfast = host=%s port=%s dbname=%s user=%s
[pgbouncer]
pool_mode = transaction
auth_type = any
listen_addr =
listen_port = 6432
unix_socket_dir = %s
default_pool_size = 8
max_client_conn = 200
`, socket, direct.Query().Get("port"), strings.TrimPrefix(direct.Path, "/"), direct.User.Username(), dir)
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	startPooler(t, ini, ownerOf(t, dir))
	query := url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}
	pooled = "postgres://" + direct.User.Username() + "@/holdfast?" + query.Encode()
	eventually(t, "the pooler answers", func() error {
		conn, err := pgx.Connect(t.Context(), pooled)
		if err != nil {
			return err
		}
		return conn.Close(t.Context())
	})
	return pooled
}

// sharedDir returns a directory that belongs to the owner of like: neither Postgres nor
// PgBouncer runs as root.
func sharedDir(t *testing.T, like string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-pooler-") //nolint:usetesting // TempDir is not accessible to other users, and its path is too long for a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	owner := ownerOf(t, like)
	if err := errors.Join(os.Chown(dir, int(owner.Uid), int(owner.Gid)), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func ownerOf(t *testing.T, path string) *syscall.Credential {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("%s has no owner", path)
	}
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
}

func startPooler(t *testing.T, ini string, as *syscall.Credential) {
	t.Helper()
	var out output
	cmd := exec.Command(findPgBouncer(t), ini)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", &out, &out
	if int(as.Uid) != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("pgbouncer:\n%s", out.String())
		}
	})
}

// findPgBouncer fails in CI if there is none (make peers).
func findPgBouncer(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no PgBouncer: run make peers")
	}
	t.Skip("no PgBouncer: run make peers")
	return ""
}

// Everything except LISTEN goes through the pooler.
func TestPgBouncerWithADirectWay(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	pooled := pgBouncer(t, database)
	settings := append([]string{"HOLDFAST_DATABASE_URL=" + pooled, "HOLDFAST_LISTEN_DATABASE_URL=" + database,
		"HOLDFAST_DATA_DIR=" + t.TempDir()}, quick...)
	launch(t, settings).stop()
	w := setupOn(t, pooled, append([]string{"HOLDFAST_LISTEN_DATABASE_URL=" + database}, patient...)...)
	api := launch(t, w.settings, "--role", "api")
	worker := launch(t, w.settings, "--role", "worker")
	f := startTraffic(t, w, api)
	f.flows(40)
	f.end(w.settings, database)
	f.prompt()
	for _, s := range []*serving{api, worker} {
		if log := s.err.String(); strings.Contains(log, "polling") || strings.Contains(log, "prepared statement") {
			t.Errorf("log:\n%s", worthReading(log))
		}
	}
}

// Everything goes through the pooler, migrations too. Notifications do not arrive, so events
// and jobs are found by polling, which is logged once.
func TestPgBouncerAlone(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	pooled := pgBouncer(t, database)
	alone := []string{"HOLDFAST_DATABASE_URL=" + pooled}
	var migrating sync.WaitGroup
	for range 3 {
		migrating.Go(func() {
			if r := command(t, alone, "migrate"); r.code != exitDone {
				t.Errorf("migrate: exit %d: %s%s", r.code, r.out, r.err)
			}
		})
	}
	migrating.Wait()
	w := setupOn(t, pooled, patient...)
	api := launch(t, w.settings, "--role", "api")
	launch(t, w.settings, "--role", "worker")
	f := startTraffic(t, w, api)
	f.flows(40)
	f.end(w.settings, database)
	f.prompt()
	if n := strings.Count(api.err.String(), "polling"); n != 1 {
		t.Errorf("polling for events is logged %d times:\n%s", n, worthReading(api.err.String()))
	}
}

// Sessions behind a pooler cannot set what they need: a default that they cannot work with
// is reported before a purchase is accepted.
func TestPgBouncerWithUnusableDefaults(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"default_transaction_isolation": "SET default_transaction_isolation = 'serializable'",
		"synchronous_commit":            "SET synchronous_commit = off",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewURL(t)
			alterDatabase(t, database, change)
			settings := append([]string{"HOLDFAST_DATABASE_URL=" + pgBouncer(t, database), "HOLDFAST_DATA_DIR=" + t.TempDir(),
				"HOLDFAST_ADDR=127.0.0.1:0"}, quick...)
			r := command(t, settings, "serve", "--log-level", "error")
			if r.code != exitFailed || !strings.Contains(r.err, name) || strings.Count(r.err, "\n") != 1 {
				t.Errorf("serve: exit %d: %s%s", r.code, r.out, r.err)
			}
		})
	}
}

func TestEveryOutcomeThroughPgBouncer(t *testing.T) {
	t.Parallel()
	everyOutcome(t, setupOn(t, pgBouncer(t, pgtest.NewURL(t))))
}

// A pooler accepts no session limits: the pool's own deadline ends a statement, on the server
// too.
func TestPgBouncerStatementsEnd(t *testing.T) {
	t.Parallel()
	database := pgtest.NewURL(t)
	pool, err := postgres.OpenPool(t.Context(), pgBouncer(t, database), postgres.PoolParams{
		Name: "test", Size: 2, Pooled: true, Serving: true, Limits: postgres.Limits{Statement: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	holder, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(t.Context())
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE account"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := pool.Exec(t.Context(), "SELECT FROM account FOR UPDATE"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a statement that waits for a lock: %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	eventually(t, "nothing waits on the server", func() error {
		var waiting int
		ask(t, database, "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())", &waiting)
		if waiting > 0 {
			return fmt.Errorf("%d statements", waiting)
		}
		return nil
	})
}
