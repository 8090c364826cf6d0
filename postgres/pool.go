package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// One pool for each kind of work, so that none starves another: purchases go on while
// the workers are busy, and events leave while both are.
// The sizes are small on purpose: two processes of each role fit into the hundred
// connections that Postgres grants by default.
const (
	// requestPoolSize: a purchase needs a connection for two statements of a millisecond
	// or so; more of them only wait for the same disk and locks.
	RequestPoolSize = 16
	// workPoolSize: a pass holds no connection while it talks to the broker. River's
	// listener takes one more of its own.
	WorkPoolSize = 12
	// relayPoolSize: the relay, retention, and streams that replay.
	RelayPoolSize = 4
	// sidePoolSize is for the half that a process is not: health and metrics of a
	// worker, the jobs' page of an api.
	SidePoolSize = 3

	// connectTimeout is for each host of the address: one that is gone must not use up the
	// time that the next one needs.
	connectTimeout = 3 * time.Second
	// Connections are renewed, so that a changed address or role is followed.
	connectionLife       = time.Hour
	connectionLifeJitter = 10 * time.Minute
	connectionIdle       = 10 * time.Minute
	healthEvery          = 15 * time.Second
)

// Limits are the timeouts that the server itself enforces on a session.
type Limits struct{ Statement, Lock, Idle time.Duration }

// abandonedIdle ends a transaction whose process has vanished or frozen between two
// statements, which follow each other in milliseconds: till then it locks an account
// against everybody's purchases.
const abandonedIdle = 5 * time.Second

var (
	// requestLimits: nothing that a client waits for may take longer.
	RequestLimits = Limits{Statement: 5 * time.Second, Lock: 2 * time.Second, Idle: abandonedIdle}
	// workLimits leave room for the sweep's batches and River's upkeep, and for a table
	// that is locked for a while.
	WorkLimits = Limits{Statement: time.Minute, Lock: 10 * time.Second, Idle: abandonedIdle}
)

// planning: each statement is planned once a connection, whatever its arguments, and its
// plan must still be right when a table has grown a thousandfold. Planning the statement
// that settles a purchase takes longer than running it, and a plan made while a table is
// small would read all of it.
var planning = map[string]string{
	// Each statement relies on seeing what was committed before it.
	"default_transaction_isolation": "read committed",
	"plan_cache_mode":               "force_generic_plan",
	"enable_seqscan":                "off",
	"jit":                           "off",
}

// PoolParams describe a pool.
type PoolParams struct {
	// Name is shown in pg_stat_activity.
	Name   string
	Size   int32
	Limits Limits
	// Pooled: there is a transaction pooler in between. It keeps no session: so no
	// prepared statements that outlive a transaction, and no session settings.
	Pooled bool
	// Serving: the pool lives as long as the process, through whatever becomes of the
	// database, and is for a server that takes writes.
	Serving bool
}

// OpenPool returns a pool; it connects when it is first used, and again whenever a
// connection is lost. What the URL itself says, such as pool_max_conns or
// statement_timeout, counts.
func OpenPool(ctx context.Context, url string, p PoolParams) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
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
	if p.Serving {
		validateConnections(config, p)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", err)
	}
	return pool, nil
}

func setSession(config *pgx.ConnConfig, url string, p PoolParams) {
	if _, set := config.RuntimeParams["application_name"]; !set {
		config.RuntimeParams["application_name"] = "holdfast " + p.Name
	}
	if p.Pooled {
		if !strings.Contains(url, "default_query_exec_mode") {
			config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return
	}
	for name, value := range planning {
		if _, set := config.RuntimeParams[name]; !set {
			config.RuntimeParams[name] = value
		}
	}
	for name, limit := range map[string]time.Duration{
		"statement_timeout":                   p.Limits.Statement,
		"lock_timeout":                        p.Limits.Lock,
		"idle_in_transaction_session_timeout": p.Limits.Idle,
	} {
		if _, set := config.RuntimeParams[name]; !set && limit > 0 {
			config.RuntimeParams[name] = strconv.FormatInt(limit.Milliseconds(), 10)
		}
	}
}
