package postgres

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// A server whose host has vanished closes no connection. An idle connection to it is
	// closed after aliveIdle and aliveCount probes, one with a statement in flight once
	// nothing has been acknowledged for [tcpUserTimeout].
	aliveIdle      = 5 * time.Second
	aliveInterval  = 2 * time.Second
	aliveCount     = 3
	tcpUserTimeout = 10 * time.Second
	// pingTimeout bounds the check of an idle connection before another is taken.
	pingTimeout = 2 * time.Second
	// statementSlack leaves it to the server to end a statement first: it says why.
	statementSlack = 2 * time.Second
)

// validateConnections makes a serving pool drop connections to servers that are
// unreachable or that accept no writes, such as a former primary.
func validateConnections(config *pgxpool.Config, p PoolParams) {
	config.PingTimeout = pingTimeout
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	fatal := config.ConnConfig.OnPgError
	config.ConnConfig.OnPgError = func(conn *pgconn.PgConn, said *pgconn.PgError) bool {
		return said.Code != pgerrcode.ReadOnlySQLTransaction && fatal(conn, said)
	}
	if p.Pooled {
		config.ConnConfig.DialFunc = dialer.DialContext
		config.ConnConfig.Tracer = bound{p.Limits.Statement}
		return
	}
	// Behind a pooler this would not work: it repeats the parameters of its first server.
	config.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) { return takesWrites(conn), nil }
	config.AfterRelease = takesWrites
	config.ConnConfig.Tracer = bound{p.Limits.Statement + statementSlack}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		l := &link{}
		c.DialFunc, c.AfterConnect = l.dial, l.connected
		return nil
	}
}

// takesWrites reads the parameters that the server reports on its own; it costs no query.
func takesWrites(conn *pgx.Conn) bool {
	said := conn.PgConn().ParameterStatus
	return said("in_hot_standby") != "on" && said("default_transaction_read_only") != "on"
}

var dialer = net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveIdle, Interval: aliveInterval, Count: aliveCount},
	Control:         setTCPUserTimeout,
}

// link dials one connection. A statement that is given up is abandoned, never cancelled: a
// cancelled commit would stop waiting for its synchronous standby, exist on this server
// alone, and be read as if it could not be lost. The server ends an abandoned statement by
// the session's own limits.
type link struct {
	mu   sync.Mutex
	conn net.Conn
	up   bool
}

var errNotCancelled = errors.New("statement is left, not cancelled")

// dial connects. pgx dials again only to cancel: then the connection is given up, at
// once, so that its place in the pool is free.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up {
		return nil, errors.Join(errNotCancelled, l.conn.Close())
	}
	conn, err := dialer.DialContext(ctx, network, address)
	l.conn = conn
	return conn, err
}

func (l *link) connected(context.Context, *pgconn.PgConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = true
	return nil
}

// bound gives a deadline to each statement that has no nearer one, whatever the server
// does and whatever is in between.
type bound struct{ most time.Duration }

type endKey struct{}

func (b bound) begin(ctx context.Context) context.Context {
	if deadline, ok := ctx.Deadline(); b.most <= 0 || ok && time.Until(deadline) <= b.most {
		return context.WithValue(ctx, endKey{}, context.CancelFunc(func() {}))
	}
	ctx, end := context.WithTimeout(ctx, b.most)
	return context.WithValue(ctx, endKey{}, end)
}

func end(ctx context.Context) {
	if end, ok := ctx.Value(endKey{}).(context.CancelFunc); ok {
		end()
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (b bound) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return b.begin(ctx)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (b bound) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { end(ctx) }

// TraceBatchStart implements pgx.BatchTracer.
func (b bound) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return b.begin(ctx)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (b bound) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (b bound) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { end(ctx) }
