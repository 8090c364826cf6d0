package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/localpg"
	"holdfast/sql"
)

// env is where one run measures: a temp folder with a private Postgres, a stub broker,
// and what the figure at hand has started.
type env struct {
	ctx      context.Context
	started  time.Time
	o        Options
	dir      string
	postgres *localpg.Server
	admin    *pgxpool.Pool
	version  string
	broker   *stub
	// counter makes names and keys that no other measurement has.
	counter atomic.Int64
	// ends stop what the figure started, in the reverse order.
	ends []func() error
}

// The templates that each figure's databases are copies of.
const (
	productTemplate  = "bench_product"
	baselineTemplate = "bench_baseline"
)

// postgresSettings add what a measurement reads, and nothing that makes it faster:
// durability is Postgres's default.
var postgresSettings = map[string]string{"track_commit_timestamp": "on"}

func openEnv(ctx context.Context, o Options) (*env, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	l := &env{ctx: ctx, started: time.Now(), o: o, dir: dir}
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *env) open() (err error) {
	// Postgres may have to run as another user, who must get through.
	if err := os.Chmod(l.dir, 0o711); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	l.say("starting Postgres in %s", l.dir)
	l.postgres, err = localpg.Start(l.ctx, localpg.Config{DataDir: filepath.Join(l.dir, "data"), Settings: postgresSettings})
	if err != nil {
		return fmt.Errorf("private Postgres: %w", err)
	}
	if l.admin, err = pgxpool.New(l.ctx, l.postgres.URL()); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	var version string
	if err := l.admin.QueryRow(l.ctx, "SHOW server_version").Scan(&version); err != nil {
		return fmt.Errorf("ask version: %w", err)
	}
	l.version = "PostgreSQL " + version
	if l.broker, err = startStub(); err != nil {
		return err
	}
	return l.makeTemplates()
}

func (l *env) close() error {
	err := l.endFigure()
	if l.broker != nil {
		l.broker.close()
	}
	if l.admin != nil {
		l.admin.Close()
	}
	if l.postgres != nil {
		err = errors.Join(err, l.postgres.Stop(context.WithoutCancel(l.ctx)))
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// say tells of progress, and how far the run is.
func (l *env) say(format string, args ...any) {
	fmt.Fprintf(l.o.Progress, "%6.1fs  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// onEnd registers what ends with the figure.
func (l *env) onEnd(end func() error) { l.ends = append(l.ends, end) }

func (l *env) endFigure() (err error) {
	for len(l.ends) > 0 {
		last := len(l.ends) - 1
		err = errors.Join(err, l.ends[last]())
		l.ends = l.ends[:last]
	}
	return err
}

// makeTemplates prepares a product's database with accounts and keys, and the baseline's.
func (l *env) makeTemplates() error {
	for name, fill := range map[string]func(*pgx.Conn) error{productTemplate: l.fillProduct, baselineTemplate: l.fillBaseline} {
		if _, err := l.admin.Exec(l.ctx, "CREATE DATABASE "+name); err != nil {
			return fmt.Errorf("make template: %w", err)
		}
		if name == productTemplate {
			if err := sql.Migrate(l.ctx, l.url(name)); err != nil {
				return fmt.Errorf("make template: %w", err)
			}
		}
		if err := l.with(name, fill); err != nil {
			return fmt.Errorf("fill template: %w", err)
		}
	}
	return nil
}

// copyOf makes a database from a template; it goes with the figure.
func (l *env) copyOf(template string) (string, error) {
	name := fmt.Sprintf("bench_%d", l.counter.Add(1))
	if _, err := l.admin.Exec(l.ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template)); err != nil {
		return "", fmt.Errorf("copy database: %w", err)
	}
	l.onEnd(func() error {
		_, err := l.admin.Exec(context.WithoutCancel(l.ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	})
	return name, nil
}

// url is a database's address.
func (l *env) url(database string) string {
	address, err := url.Parse(l.postgres.URL())
	if err != nil {
		panic("localpg gave an unreadable URL: " + err.Error())
	}
	address.Path = "/" + database
	return address.String()
}

// with runs do on a connection of its own.
func (l *env) with(database string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(l.ctx, l.url(database))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(l.ctx))
	return do(conn)
}

// query scans one row of one statement.
func (l *env) query(database, statement string, args []any, into ...any) error {
	return l.with(database, func(conn *pgx.Conn) error {
		return conn.QueryRow(l.ctx, statement, args...).Scan(into...)
	})
}
