package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"

	"holdfast/sql"
)

const (
	// buildLock is the advisory lock of whoever makes a template.
	buildLock = 4_711_001
	// keepTemplates is how many states of the migrations are kept.
	keepTemplates = 3
)

var count atomic.Int64

// newName carries the process id, so that what a killed process left can be told
// from what a living one uses.
func newName() string { return fmt.Sprintf("test_%d_%d", os.Getpid(), count.Add(1)) }

func empty(ctx context.Context, c *cluster, name string) error {
	return c.exec(ctx, "CREATE DATABASE "+name)
}

func clone(ctx context.Context, c *cluster, name string) error {
	template, err := template()
	if err != nil {
		return err
	}
	return c.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template)
}

// template makes sure of the template once a process.
var template = sync.OnceValues(func() (string, error) {
	joined, err := shared()
	if err != nil {
		return "", err
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	state, err := fingerprint(root)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name := "template_" + state
	return name, joined.with(ctx, func(conn *pgx.Conn) error { return joined.build(ctx, conn, name) })
})

// build makes the template where no other process has, under a lock that goes with
// the connection.
func (c *cluster) build(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(buildLock)); err != nil {
		return fmt.Errorf("lock templates: %w", err)
	}
	var there bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there)
	if err != nil || there {
		return err
	}
	if err := c.migrate(ctx, conn, name); err != nil {
		return fmt.Errorf("make template: %w", err)
	}
	return dropTemplates(ctx, conn)
}

// migrate works under another name until all is done: a template is whole.
func (c *cluster) migrate(ctx context.Context, conn *pgx.Conn, name string) error {
	raw := newName()
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+raw); err != nil {
		return err
	}
	if err := sql.Migrate(ctx, c.url(raw)); err != nil {
		return err
	}
	// Nobody connects to a template, autovacuum included: a clone would wait for it.
	_, err := conn.Exec(ctx, "ALTER DATABASE "+raw+" WITH ALLOW_CONNECTIONS false")
	if err == nil {
		_, err = conn.Exec(ctx, "ALTER DATABASE "+raw+" RENAME TO "+name)
	}
	return err
}

func dropTemplates(ctx context.Context, conn *pgx.Conn) error {
	names, err := databases(ctx, conn, "template\\_%")
	if err != nil {
		return err
	}
	for _, old := range names[:max(0, len(names)-keepTemplates)] {
		if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+old); err != nil {
			return fmt.Errorf("drop old template: %w", err)
		}
	}
	return nil
}

// tidy drops the databases of test processes that were killed.
func (c *cluster) tidy() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.with(ctx, func(conn *pgx.Conn) error {
		names, err := databases(ctx, conn, "test\\_%")
		for _, name := range names {
			if err == nil && orphaned(name) {
				_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			}
		}
		return err
	})
}

func orphaned(name string) bool {
	pid, err := strconv.Atoi(strings.Split(name, "_")[1])
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// databases lists names that match, oldest first.
func databases(ctx context.Context, conn *pgx.Conn, like string) ([]string, error) {
	rows, err := conn.Query(ctx, "SELECT datname FROM pg_database WHERE datname LIKE $1 ORDER BY oid", like)
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	return names, nil
}

// fingerprint is the state of all that makes the schema: our migrations, and the
// versions of River and goose, which bring their own tables.
func fingerprint(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "sql", "migrations", "*"))
	if err != nil {
		return "", fmt.Errorf("list migrations: %w", err)
	}
	files = append(files, filepath.Join(root, "sql", "migrate.go"), filepath.Join(root, "go.mod"))
	slices.Sort(files)
	sum := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read migrations: %w", err)
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(text))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

// moduleRoot is above the folder that `go test` runs a package's tests in.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the work tree: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("find the work tree: no go.mod above the tests")
}
