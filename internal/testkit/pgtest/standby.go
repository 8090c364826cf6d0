package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby returns a copy of the cluster that streams from it by way of a network address,
// which leads to the cluster's socket. From now on the cluster commits nothing that the
// copy has not got.
func (c *Cluster) Standby(t testing.TB, host, port string) *Cluster {
	t.Helper()
	s := &Cluster{dir: tempDir(t)}
	copyCluster(t, c, s, fmt.Sprintf("host=%s port=%s user=%s", host, port, c.user(t)))
	s.Start(t)
	t.Cleanup(func() { s.Stop(t) })
	c.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	c.Exec(t, "SELECT pg_reload_conf()")
	deadline := time.Now().Add(patience)
	for !c.ask(t, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')") {
		if time.Now().After(deadline) {
			t.Fatal("the standby does not stream")
		}
		<-time.After(10 * time.Millisecond)
	}
	return s
}

// copyCluster takes a base backup, as the user that Postgres runs as.
func copyCluster(t testing.TB, from, to *Cluster, primary string) {
	t.Helper()
	dir := filepath.Join(to.dir, "postgres")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("make data dir: %v", err)
	}
	backup := exec.CommandContext(t.Context(), from.Tool(t, "pg_basebackup"), "--pgdata="+filepath.Join(dir, "data"),
		"--dbname="+primary, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
	backup.Dir = "/"
	if owner := from.owner(t); int(owner.Uid) != os.Geteuid() {
		backup.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatalf("give data dir away: %v", err)
		}
	}
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("copy cluster: %v\n%s", err, out)
	}
}

// Promote makes a standby a primary, and returns when it takes writes.
func (c *Cluster) Promote(t testing.TB) {
	t.Helper()
	c.Exec(t, "SELECT pg_promote(true)")
}

// Tool finds a program of the cluster's own version, such as pg_dump.
func (c *Cluster) Tool(t testing.TB, name string) string {
	t.Helper()
	var dir string
	c.query(t, "SELECT setting FROM pg_config WHERE name = 'BINDIR'", &dir)
	for _, place := range []string{filepath.Join(dir, name), name} {
		if found, err := exec.LookPath(place); err == nil {
			return found
		}
	}
	t.Fatalf("no %s: install Postgres's client programs", name)
	return ""
}

// owner is the user that the cluster runs as.
func (c *Cluster) owner(t testing.TB) *syscall.Credential {
	t.Helper()
	info, err := os.Stat(filepath.Join(c.dir, "postgres"))
	if err != nil {
		t.Fatalf("find data dir: %v", err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("the data dir has no owner")
	}
	return &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
}

func (c *Cluster) user(t testing.TB) string {
	t.Helper()
	address, err := url.Parse(c.URL())
	if err != nil {
		t.Fatalf("read database URL: %v", err)
	}
	return address.User.Username()
}

// Socket is the folder of the cluster's socket, and its port there.
func (c *Cluster) Socket(t testing.TB) (dir, port string) {
	t.Helper()
	address, err := url.Parse(c.URL())
	if err != nil {
		t.Fatalf("read database URL: %v", err)
	}
	return address.Query().Get("host"), address.Query().Get("port")
}

// Exec runs one statement as the superuser.
func (c *Cluster) Exec(t testing.TB, statement string) {
	t.Helper()
	c.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

func (c *Cluster) ask(t testing.TB, question string) (yes bool) {
	t.Helper()
	c.query(t, question, &yes)
	return yes
}

func (c *Cluster) query(t testing.TB, question string, into any) {
	t.Helper()
	c.with(t, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, question).Scan(into) })
}

func (c *Cluster) with(t testing.TB, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	if err := do(ctx, conn); err != nil {
		t.Fatalf("ask the cluster: %v", err)
	}
}
