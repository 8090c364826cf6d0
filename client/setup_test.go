package client_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/api"
	"holdfast/auth"
	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/client"
	"holdfast/internal/testkit/pgtest"
	"holdfast/jobs"
	"holdfast/outbox"
	"holdfast/purchase"
	"holdfast/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// holdfast is the whole API on a database of its own.
type holdfast struct {
	pool    *pgxpool.Pool
	keys    *auth.Store
	box     *outbox.Outbox
	streams *api.Streams
	handler http.Handler
	server  *httptest.Server
	conns   *conns
	// answers counts those that have reached a client.
	answers atomic.Int64
}

type counted struct {
	http.RoundTripper
	answers *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.answers.Add(1)
	}
	return response, err
}

func setup(t *testing.T) *holdfast {
	t.Helper()
	h := &holdfast{pool: pgtest.New(t)}
	h.keys = auth.New(auth.Config{Pool: h.pool})
	h.box = outbox.New(outbox.Config{Pool: h.pool, Keep: time.Hour, Encode: api.EncodeEvent})
	run(t, h.box.Run)
	<-h.box.Hub.Ready()
	p := h.params(t)
	h.streams = api.NewStream(api.StreamParams{
		Hub: h.box.Hub, Events: h.box.Events, Keys: h.keys, Accounts: p.Accounts, Purchases: p.Purchases,
	})
	p.Streams = h.streams
	h.handler = api.New(p)
	h.server = httptest.NewUnstartedServer(h.handler)
	h.conns = &conns{Listener: h.server.Listener}
	h.server.Listener = h.conns
	h.server.Start()
	t.Cleanup(func() { h.streams.Close(); h.server.Close() })
	_, err := p.Accounts.Create(t.Context(), account.CreateParams{
		ID: "acct-1", Currency: "USD", Available: decimal.NewFromInt(1000), Actor: "operator:test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// conns remembers what a server has accepted, so that it can be cut off.
type conns struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func (c *conns) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, conn)
	}
	return conn, err
}

// cut ends all connections, as a process does that dies.
func (c *conns) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}

func run(t *testing.T, loop func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func (h *holdfast) params(t *testing.T) api.Params {
	t.Helper()
	scheduler, err := jobs.NewScheduler(h.pool)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	p := api.Params{
		Accounts: account.New(h.pool), Switches: purchase.NewSwitches(h.pool, quiet), Keys: h.keys,
		Pool: h.pool, Log: quiet,
		Queues: func(ctx context.Context) (map[string]bool, error) { return jobs.Queues(ctx, h.pool) },
	}
	p.Purchases = purchase.New(purchase.Params{
		Pool: h.pool, Accounts: p.Accounts, Scheduler: scheduler, Alerts: alert.New(h.pool, scheduler, slog.New(slog.DiscardHandler)),
		Committed: h.box.Wake, Switches: p.Switches, Observer: nobody{}, Log: quiet,
		Brokers: purchase.NewBrokers(purchase.Member{
			Broker: sandboxBroker(t), Gate: broker.NewGate(broker.GateConfig{}),
			Policy: purchase.Policy{
				RetryBase: time.Minute, RetryCap: time.Hour, MaxAttempts: 20, MaxAge: 12 * time.Hour,
				RetryAfterMax: time.Hour, PendingGrace: time.Minute, RescueAfter: 2 * time.Minute,
			},
		}),
	})
	return p
}

func sandboxBroker(t *testing.T) broker.Broker {
	t.Helper()
	box, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(box.Handler())
	t.Cleanup(func() { _ = box.Close(); server.Close() })
	b, err := httpbroker.New(httpbroker.Config{
		URL: server.URL, Timeout: 30 * time.Second, KeyRetention: 24 * time.Hour, Settle: 10 * time.Second, Idempotent: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type nobody struct{}

func (nobody) StatusChanged(purchase.Status)            {}
func (nobody) BrokerCall(string, string, time.Duration) {}
func (nobody) PassEnded(string)                         {}
func (nobody) OrphanRepaired(string)                    {}
func (nobody) Contradiction()                           {}

// client returns one with a new key, and the key's id.
func (h *holdfast) client(t *testing.T, scope, accountID string) (*client.Client, string) {
	t.Helper()
	key, secret, err := h.keys.Create(t.Context(), auth.CreateParams{Scope: scope, AccountID: accountID})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Config{URL: h.server.URL, Key: secret, HTTP: &http.Client{Transport: counted{transport, &h.answers}}})
	if err != nil {
		t.Fatal(err)
	}
	return c, key.ID
}

// happen commits n status changes.
func (h *holdfast) happen(t *testing.T, n int) {
	t.Helper()
	_, err := h.pool.Exec(t.Context(), `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
		SELECT gen_random_uuid(), 'acct-1', 2, 'COMPLETED', 'PENDING' FROM generate_series(1, $1)`, n)
	if err != nil {
		t.Fatal(err)
	}
	h.box.Wake()
}
