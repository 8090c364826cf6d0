package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// One pool for each kind of work, so that none starves another: purchases go on while
// the workers are busy, and events leave while both are.
// The sizes are small on purpose: two processes of each role fit into the hundred
// connections that Postgres grants by default.
const (
	// RequestPoolSize: a purchase needs a connection for two statements of a millisecond
	// or so; more of them only wait for the same disk and locks.
	RequestPoolSize = 16
	// WorkPoolSize: a pass holds no connection while it talks to the broker. River's
	// listener takes one more of its own.
	WorkPoolSize = 12
	// RelayPoolSize: the relay, retention, and streams that replay.
	RelayPoolSize = 4
	// SidePoolSize is for the half that a process is not: health and metrics of a
	// worker, the jobs' page of an api.
	SidePoolSize = 3

	// connectTimeout is for each host of the URL: one that is unreachable must not use up
	// the time that the next one needs.
	connectTimeout = 3 * time.Second
	// Connections are renewed, so that a changed address or role is followed.
	connectionLife       = time.Hour
	connectionLifeJitter = 10 * time.Minute
	connectionIdle       = 10 * time.Minute
	healthEvery          = 15 * time.Second
)

// Limits are the timeouts that the server itself enforces on a session. Zero means none,
// whatever the database or the role has as its default.
type Limits struct{ Statement, Lock, Idle time.Duration }

// abandonedIdle ends a transaction whose process has vanished or frozen between two
// statements, which follow each other in milliseconds: until then it keeps an account
// locked.
const abandonedIdle = 5 * time.Second

var (
	// RequestLimits: nothing that a client waits for may take longer.
	RequestLimits = Limits{Statement: 5 * time.Second, Lock: 2 * time.Second, Idle: abandonedIdle}
	// WorkLimits leave room for the sweep's batches and River's upkeep, and for a table
	// that is locked for a while.
	WorkLimits = Limits{Statement: time.Minute, Lock: 10 * time.Second, Idle: abandonedIdle}
)

// PoolParams describe a pool.
type PoolParams struct {
	// Name is shown in pg_stat_activity.
	Name   string
	Size   int32
	Limits Limits
	// Pooled: the URL leads to a transaction pooler, which keeps no session: prepared
	// statements do not outlive a transaction, and there are no session settings.
	Pooled bool
	// Serving: the pool lives as long as the process, whatever happens to the database,
	// and accepts only servers that take writes.
	Serving bool
}

// OpenPool returns a pool. It connects when it is first used, and again whenever a connection
// is lost. What the URL itself sets, such as pool_max_conns or statement_timeout, prevails.
func OpenPool(ctx context.Context, url string, p PoolParams) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", err)
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = p.Size
	}
	config.MinConns = 1
	config.MaxConnLifetime = connectionLife
	config.MaxConnLifetimeJitter = connectionLifeJitter
	config.MaxConnIdleTime = connectionIdle
	config.HealthCheckPeriod = healthEvery
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	setSession(config.ConnConfig, url, p)
	if !p.Pooled {
		config.AfterConnect = ensureDurable
	}
	if p.Serving {
		validateConnections(config, p)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return pool, nil
}
