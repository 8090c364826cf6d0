package purchase_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

// line is the way to the database, which can lose an answer and be away for a while.
type line struct {
	// lose makes the next answer get lost on its way; away refuses new connections, also
	// the one that pgx makes to cancel a statement.
	lose, away atomic.Bool
	lost       chan struct{}
	// says is what comes in place of the answer that is lost: a pooler's last message.
	says []byte
	// hold keeps the next statement back; held is its connection, which outlives its client.
	hold atomic.Bool
	held atomic.Pointer[lossy]
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.away.Load() {
		return nil, errors.New("network is down")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	return &lossy{Conn: conn, line: l}, err
}

// lossy is a connection that breaks instead of bringing the answer that is to be lost.
type lossy struct {
	net.Conn
	line     *line
	truncate []byte
}

func (c *lossy) Write(p []byte) (int, error) {
	if c.line.hold.CompareAndSwap(true, false) {
		c.line.held.Store(c)
		c.truncate = bytes.Clone(p)
		return len(p), nil
	}
	if c.line.held.Load() == c {
		return len(p), nil // its client's last word
	}
	return c.Conn.Write(p)
}

func (c *lossy) Close() error {
	if c.line.held.Load() == c {
		return nil
	}
	return c.Conn.Close()
}

// deliver brings the statement that was kept back, and waits until the server has dealt
// with it: it goes on to read what comes behind, finds the end, and goes.
func (b *bundle) deliver(l *line) {
	b.t.Helper()
	const sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
	before := b.count(sessions)
	c := l.held.Load()
	if _, err := c.Conn.Write(c.truncate); err != nil {
		b.t.Fatal(err)
	}
	if err := c.Conn.Close(); err != nil {
		b.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); b.count(sessions) >= before; {
		if time.Now().After(deadline) {
			b.t.Fatal("the server's process does not end")
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (c *lossy) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.line.lose.CompareAndSwap(true, false) {
		close(c.line.lost)
		return copy(p, c.line.says), errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	return n, err
}

// lineName is how the line's connections are named in pg_stat_activity.
const lineName = "line"

// overLine gives the bundle a service whose way to the database is the test's.
func (b *bundle) overLine() *line {
	b.t.Helper()
	l := &line{lost: make(chan struct{})}
	config := b.pool.Config()
	config.ConnConfig.DialFunc = l.dial
	config.ConnConfig.RuntimeParams["application_name"] = lineName
	config.ConnConfig.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool { return true }
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(pool.Close)
	own := b.pool
	b.pool = pool
	b.Service = b.service(httpbroker.Config{
		URL: b.broker.URL, Timeout: 2 * time.Second, KeyRetention: 24 * time.Hour, Settle: 10 * time.Second, Idempotent: true,
	}, broker.GateConfig{})
	b.pool = own
	// The account's currency and the plan are known from here on: the next answer is a
	// record's.
	b.submit(order())
	return l
}

// What was recorded is called, though the answer that it was got lost, and though the
// database is away just then.
func TestRecordWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		b := setup(t)
		l := b.overLine()
		l.lose.Store(true)
		l.away.Store(away)
		go func() {
			<-l.lost
			time.AfterFunc(recoverSoon, func() { l.away.Store(false) })
		}()
		p := b.submit(order())
		b.wantEnd(p, purchase.Completed, "", purchase.ByReply)
		if n := len(b.broker.placed(p)); n != 1 {
			t.Errorf("placed %d times", n)
		}
		b.audit()
	}
}

// recoverSoon is how long the database is away.
const recoverSoon = time.Second

// Nothing is recorded once the database has said that an account stayed locked.
func TestLockedAccountIsUnavailable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	holder := b.lockAccount("acct-1")
	sub := order()
	_, err := b.Submit(t.Context(), sub)
	var unavailable *purchase.UnavailableError
	if !errors.As(err, &unavailable) {
		t.Errorf("error is %v, want UnavailableError", err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if n := b.count("SELECT count(*) FROM transaction_history"); n != 0 {
		t.Errorf("%d purchases, want none", n)
	}
	b.audit()
}

// lockAccount locks an account's balance, as a transaction does that has not ended.
func (b *bundle) lockAccount(id string) pgx.Tx {
	b.t.Helper()
	holder, err := b.pool.Begin(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := holder.Exec(b.t.Context(), "SELECT FROM account WHERE id = $1 FOR NO KEY UPDATE", id); err != nil {
		b.t.Fatal(err)
	}
	return holder
}

// A statement may reach the database long after its client has given up, where the
// server's process was stopped. It must not record anything then.
func TestRecordThatComesTooLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.overLine()
	l.hold.Store(true)
	p := b.submit(order())
	b.wantEnd(p, purchase.Completed, "", purchase.ByReply)
	b.deliver(l)
	b.wantMoney("500.00", "0.00", "500.00")
	if n := b.count("SELECT count(*) FROM transaction_history"); n != 2 {
		t.Errorf("%d purchases, want this one and the first", n)
	}
	b.audit()
}
