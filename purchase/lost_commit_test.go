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
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	return n, err
}

// overLine gives the bundle a service whose way to the database is the test's.
func (b *bundle) overLine() (*line, *pgxpool.Pool) {
	b.t.Helper()
	l := &line{lost: make(chan struct{})}
	config := b.pool.Config()
	config.ConnConfig.DialFunc = l.dial
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
	return l, pool
}

func (b *bundle) acquire(pool *pgxpool.Pool) *pgxpool.Conn {
	b.t.Helper()
	conn, err := pool.Acquire(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// What was recorded is called, though the answer that it was got lost, and though the
// database is away just then.
func TestRecordWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		b := setup(t)
		l, _ := b.overLine()
		l.lose.Store(true)
		l.away.Store(away)
		go func() {
			<-l.lost
			time.AfterFunc(recoverSoon, func() { l.away.Store(false) })
		}()
		p := b.submit(order())
		b.wantEnd(p, purchase.Completed, "", purchase.ByReply)
		if n := len(b.broker.placed(p.ID)); n != 1 {
			t.Errorf("placed %d times", n)
		}
		b.audit()
	}
}

// recoverSoon is how long the database is away.
const recoverSoon = time.Second

// A record that nobody waits for any more may yet commit: whether it does is waited for.
func TestRecordThatCommitsLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, pool := b.overLine()
	// Two connections, for none can be made while the network is down.
	first, second := b.acquire(pool), b.acquire(pool)
	first.Release()
	second.Release()
	holder, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "SELECT FROM account WHERE id = 'acct-1' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	l.away.Store(true)
	submitted := make(chan purchase.Result, 1)
	go func() {
		result, err := b.Submit(t.Context(), order())
		if err != nil {
			t.Error(err)
		}
		submitted <- result
	}()
	// Two wait: the record that was given up, and whoever wants to know what became of it.
	b.awaitWaiting("RecordPurchases")
	b.awaitWaiting("LockAccount")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	b.wantEnd((<-submitted).Purchase, purchase.Completed, "", purchase.ByReply)
	b.audit()
}

// A statement may reach the database long after its client has given up, where the
// server's process was stopped. It must not record anything then.
func TestRecordThatComesTooLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l, _ := b.overLine()
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

// awaitWaiting waits until a statement waits for a lock.
func (b *bundle) awaitWaiting(statement string) {
	b.t.Helper()
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ $1"
	for deadline := time.Now().Add(time.Minute); b.count(waiting, statement) == 0; {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s does not wait", statement)
		}
		<-time.After(20 * time.Millisecond)
	}
}
