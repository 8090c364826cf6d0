package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/api"
	"holdfast/api/auth"
	"holdfast/client"
	"holdfast/internal/localpg"
	"holdfast/outbox"
	holdsql "holdfast/sql"
)

// process is one api process: its own pool, relay, hub, listener and streams.
type process struct {
	server  *httptest.Server
	streams *api.Streams
	pool    *pgxpool.Pool
	box     *outbox.Outbox
	cancel  context.CancelFunc
	done    chan error
}

func startProcess(t *testing.T, f *fleet) *process {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{pool: pool, done: make(chan error, 1)}
	p.box = outbox.New(outbox.Config{Pool: pool, ListenURL: f.url, Keep: time.Hour, Encode: api.EncodeEvent})
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() { p.done <- p.box.Run(ctx) }()
	<-p.box.Hub.Ready()
	p.streams = api.NewStream(api.StreamParams{Hub: p.box.Hub, Events: p.box.Events, Keys: always{}, Accounts: account.New(pool)})
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.streams.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Principal{KeyID: "k", Scope: auth.ScopeOperator})))
	}))
	return p
}

// always: this test is not about keys.
type always struct{}

func (always) Alive(context.Context, auth.Principal) (bool, error) { return true, nil }

func (p *process) stop(t *testing.T) {
	t.Helper()
	p.streams.Close()
	p.server.Close()
	p.cancel()
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	p.pool.Close()
}

// fleet is a few processes behind one address, on a Postgres that may crash.
type fleet struct {
	dir, url string
	postgres *localpg.Server
	mu       sync.Mutex
	running  []*process
}

func startFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{dir: t.TempDir()}
	f.begin(t)
	f.url = f.postgres.URL()
	if err := holdsql.Migrate(t.Context(), f.url); err != nil {
		t.Fatal(err)
	}
	for range n {
		f.running = append(f.running, startProcess(t, f))
	}
	t.Cleanup(func() {
		for _, p := range f.running {
			p.stop(t)
		}
		if err := f.postgres.Crash(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fleet) begin(t *testing.T) {
	t.Helper()
	postgres, err := localpg.Start(context.Background(), localpg.Config{DataDir: f.dir})
	if err != nil {
		t.Fatal(err)
	}
	f.postgres = postgres
}

// crash is an immediate restart of the database.
func (f *fleet) crash(t *testing.T) {
	t.Helper()
	if err := f.postgres.Crash(context.Background()); err != nil {
		t.Fatal(err)
	}
	f.begin(t)
}

// roll replaces every process, one after the other.
func (f *fleet) roll(t *testing.T) {
	t.Helper()
	for i := range f.running {
		fresh := startProcess(t, f)
		f.mu.Lock()
		old := f.running[i]
		f.running[i] = fresh
		f.mu.Unlock()
		old.stop(t)
	}
}

// deafen kills every LISTEN session.
func (f *fleet) deafen(t *testing.T) {
	t.Helper()
	_, err := f.one().pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen %'`)
	if err != nil {
		t.Error(err)
	}
}

func (f *fleet) one() *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running[rand.IntN(len(f.running))]
}

// dial stands for the load balancer.
func (f *fleet) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, f.one().server.Listener.Addr().String())
}

// load commits changes at random processes until ctx ends. A statement that has begun is
// waited for: a cancelled one may yet commit, after the log has been counted.
func (f *fleet) load(ctx context.Context) {
	for ctx.Err() == nil {
		p := f.one()
		_, err := p.pool.Exec(context.WithoutCancel(ctx), `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
			VALUES ($1, 'acct', 2, 'COMPLETED', 'PENDING')`, uuid.New())
		if err == nil {
			p.box.Poke()
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// subscriber follows the fleet's events from the first.
type subscriber struct {
	mu  sync.Mutex
	ids []string
}

func (s *subscriber) run(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	resync := func(reason string) { t.Errorf("resync: %s", reason) }
	for event, err := range c.Events(ctx, client.EventsParams{After: "0", OnResync: resync}) {
		if err != nil {
			t.Errorf("events: %v", err)
			return
		}
		s.mu.Lock()
		s.ids = append(s.ids, event.ID)
		s.mu.Unlock()
	}
}

func (s *subscriber) has() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

// Under load the listeners are killed, the database crashes twice and all processes are
// replaced twice. Each of fifty subscribers ends with exactly the log, in order.
func TestSubscribersThroughEverything(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	transport := &http.Transport{DialContext: f.dial, DisableKeepAlives: true}
	c, err := client.New(client.Config{URL: "http://holdfast", Key: "k", HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	var subscribers [50]subscriber
	var following, loading sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer following.Wait()
	defer cancel()
	for i := range subscribers {
		following.Go(func() { subscribers[i].run(ctx, t, c) })
	}
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	for range 4 {
		loading.Go(func() { f.load(writing) })
	}
	for _, calamity := range []func(*testing.T){f.deafen, f.crash, f.roll, f.deafen, f.crash, f.roll} {
		n := subscribers[0].has()
		eventually(t, "events flow", func() bool { return subscribers[0].has() > n+100 })
		calamity(t)
	}
	stop()
	loading.Wait()
	last := f.settled(t)
	for i := range subscribers {
		eventually(t, fmt.Sprintf("subscriber %d has all %d", i, last), func() bool { return subscribers[i].has() >= last })
		checkIDs(t, subscribers[i].ids, 1, last)
	}
	t.Logf("%d events to each of %d subscribers", last, len(subscribers))
}

// settled waits until the outbox is empty and returns how many events the log has, which
// must be its last number.
func (f *fleet) settled(t *testing.T) int {
	t.Helper()
	pool := f.one().pool
	ask := func(sql string) (n int) {
		if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	eventually(t, "the outbox is empty", func() bool { return ask("SELECT count(*) FROM outbox") == 0 })
	n := ask("SELECT count(*) FROM purchase_event")
	if last := ask("SELECT max(id) FROM purchase_event"); last != n {
		t.Errorf("%s events up to number %d", strconv.Itoa(n), last)
	}
	return n
}
