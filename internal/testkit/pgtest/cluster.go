package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/localpg"
)

// cluster is the run's Postgres, as this process uses it until it exits.
type cluster struct {
	server *localpg.Server
}

// shared joins the run's cluster once a process.
var shared = sync.OnceValues(func() (*cluster, error) {
	dir, err := sharedDir()
	if err != nil {
		return nil, err
	}
	server, err := open(dir)
	if err != nil {
		return nil, err
	}
	joined := &cluster{server: server}
	return joined, joined.tidy()
})

// sharedDir is a folder for this user and this work tree: another tree's run must
// not wait for ours.
func sharedDir() (string, error) {
	tree, err := moduleRoot()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(tree))
	return filepath.Join(os.TempDir(), fmt.Sprintf("holdfast-test-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:4]))), nil
}

// open attaches to a cluster, starts a keeper with it, and once, where it does not
// start (a machine that lost power, another major version), makes a new one: there
// is nothing in it to keep.
func open(dir string) (*localpg.Server, error) {
	server, err := attach(dir)
	if err == nil || errors.Is(err, localpg.ErrNoBinaries) {
		return server, err
	}
	if wipeErr := wipe(dir); wipeErr != nil {
		return nil, errors.Join(err, wipeErr)
	}
	return attach(dir)
}

func attach(dir string) (*localpg.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := localpg.Attach(ctx, localpg.Config{DataDir: dir, Settings: settings})
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	if server.Started() {
		err = keep(dir)
	}
	return server, err
}

// settings trade what a test does not need, surviving a power cut, for speed. A
// crash of Postgres itself still loses nothing.
var settings = map[string]string{
	"fsync":              "off",
	"full_page_writes":   "off",
	"max_connections":    "400",
	"shared_buffers":     "256MB",
	"autovacuum_naptime": "10s",
}

func wipe(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, "postgres")); err != nil {
		return fmt.Errorf("wipe test cluster: %w", err)
	}
	return nil
}

func (c *cluster) url(name string) string {
	address, err := url.Parse(c.server.URL())
	if err != nil {
		panic("localpg gave an unreadable URL: " + err.Error())
	}
	address.Path = "/" + name
	return address.String()
}

// exec runs one statement on a connection of its own: a test that leaks must not
// starve the next one's setup.
func (c *cluster) exec(ctx context.Context, statement string) error {
	return c.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

func (c *cluster) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, c.server.URL())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}
