package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/client"
	"holdfast/internal/testkit/pgtest"
	"holdfast/sandbox"
)

// soakSize is the minimum number of purchases, and the intended number per second. The default
// is for every run of the suite; HOLDFAST_TEST_EVENTS=30000 and HOLDFAST_TEST_RATE=500 make it
// a realistic load for a minute.
func soakSize(t *testing.T) (purchases, rate int) {
	t.Helper()
	return fromEnvironment(t, "HOLDFAST_TEST_EVENTS", 300), fromEnvironment(t, "HOLDFAST_TEST_RATE", 40)
}

func fromEnvironment(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}

const (
	soakAccounts  = 4
	soakCustomers = 64
)

// soakSymbols give purchases of every kind: most have one event, the others up to five.
var soakSymbols = []string{
	"AAPL", "MSFT", "PRICE-BELOW-LIMIT", "PARTIAL", "REJECT", "AAPL", "DROP-BOOKED", "AAPL", "DROP-LOST", "MSFT", "ERR500-BOOKED",
	"AAPL", "REJECT-REPLAY", "MSFT", "GARBAGE", "AAPL", "CUT", "MSFT", "MISMATCH", "AAPL", "REJECT-2XX", "DUPLICATE",
	"AAPL", "ERR500-FOREVER", "MSFT", "WRONG-QUANTITY",
}

// soak is two api and two worker processes on the test's own Postgres.
type soak struct {
	t        *testing.T
	postgres *pgtest.Cluster
	settings []string
	nodes    []*serving
	roles    []string
	// addrs are the api processes' addresses for the load balancer.
	addrs    [2]atomic.Pointer[string]
	operator *client.Client
	clients  [soakAccounts]*client.Client
	// watched is a purchase that repeatedly goes into review.
	watched client.Answer
}

// Purchases continue while listeners are killed, Postgres crashes twice and every process is
// replaced, by a shutdown and by kill -9. Each of fifty subscribers ends with exactly its share
// of the log, in order, each event once; no purchase misses a version.
func TestEventsThroughEverything(t *testing.T) {
	t.Parallel()
	purchases, rate := soakSize(t)
	s := startSoak(t)
	crowd := s.subscribe()
	customers := s.customers(purchases, rate)
	calamities := []func(){s.endListeners, s.crash, s.roll, s.killAPI, s.crash, s.killWorker, s.roll, s.endListeners}
	for _, calamity := range calamities {
		crowd.flows(purchases / (2 * len(calamities)))
		calamity()
		s.reconcile()
	}
	took := customers.end()
	s.settle()
	events := crowd.check(s.log())
	t.Logf("%d purchases at %.0f a second, %d events to %d subscribers over %d connections; half of them %s after their commit at most, 99 of 100 %s",
		customers.bought(), float64(customers.bought())/took.Seconds(), events, len(crowd.all), crowd.connections(), crowd.lag(50), crowd.lag(99))
	auditHolds(t, s.settings)
}

func startSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{t: t, roles: []string{"api", "api", "worker", "worker"}}
	broker, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(broker.Handler())
	t.Cleanup(func() { _ = broker.Close(); server.CloseClientConnections(); server.Close() })
	s.postgres = pgtest.Own(t)
	s.settings = append([]string{"HOLDFAST_DATABASE_URL=" + s.postgres.URL(), "HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=" + server.URL}, quick...)
	s.settings = append(s.settings, "HOLDFAST_BROKER_RATE=1000", "HOLDFAST_BREAKER_FAILURES=0")
	s.operator = s.client("--scope", "operator")
	for i := range s.clients {
		id := soakAccount(i)
		must(t, s.settings, "account", "create", "--id", id, "--currency", "USD", "--available", "100000000.00")
		s.clients[i] = s.client("--scope", "client", "--account", id)
	}
	for i := range s.roles {
		s.nodes = append(s.nodes, nil)
		s.start(i)
	}
	s.watched, err = s.clients[0].Buy(t.Context(), soakOrder("watched", 0, "ERR500-FOREVER"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func soakAccount(i int) string { return fmt.Sprintf("acct-%d", i) }

func soakOrder(key string, account int, symbol string) client.Order {
	return client.Order{IdempotencyKey: key, AccountID: soakAccount(account), Symbol: symbol, Quantity: "10", LimitPrice: "25.00"}
}

// client returns a client with a new key that reaches the api processes as through a load
// balancer.
func (s *soak) client(scope ...string) *client.Client {
	s.t.Helper()
	key := lastLine(must(s.t, s.settings, append([]string{"key", "create"}, scope...)...))
	transport := &http.Transport{DialContext: s.dial, MaxIdleConnsPerHost: soakCustomers}
	s.t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Config{URL: "http://holdfast", Key: key, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *soak) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, *s.addrs[rand.IntN(len(s.addrs))].Load())
}

func (s *soak) start(i int) {
	s.nodes[i] = launch(s.t, s.settings, "--role", s.roles[i])
	if s.roles[i] == "api" {
		s.addrs[i].Store(&s.nodes[i].addr)
	}
}

// roll replaces the api processes one after the other, with a clean shutdown.
func (s *soak) roll() {
	for i := range s.addrs {
		if code := s.nodes[i].stop(); code != exitDone {
			s.t.Errorf("an api process ends with %d", code)
		}
		s.start(i)
	}
}

func (s *soak) killAPI() { s.nodes[0].kill(); s.start(0) }

func (s *soak) killWorker() { s.nodes[2].kill(); s.start(2) }

// crash restarts Postgres in immediate mode: every session is aborted.
func (s *soak) crash() { s.postgres.Restart(s.t) }

// endListeners ends every LISTEN session. There is one for each api process, unless one is just
// reconnecting.
func (s *soak) endListeners() {
	eventually(s.t, "listeners are killed", func() error {
		if n := s.ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ILIKE 'listen %'"); n < len(s.addrs) {
			return fmt.Errorf("%d listeners", n)
		}
		return nil
	})
}

// reconcile sends the watched purchase back from review, if it is there.
func (s *soak) reconcile() {
	eventually(s.t, "asked to reconcile", func() error {
		_, err := s.operator.Reconcile(s.t.Context(), s.watched.ID)
		var refused *client.Problem
		if errors.As(err, &refused) && refused.Status == http.StatusConflict {
			return nil
		}
		return err
	})
}

// ask reads one number, on a connection that no crash has closed.
func (s *soak) ask(sql string) (n int) {
	s.t.Helper()
	s.query(func(conn *pgx.Conn) error { return conn.QueryRow(s.t.Context(), sql).Scan(&n) })
	return n
}

func (s *soak) query(do func(*pgx.Conn) error) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.postgres.URL())
	if err == nil {
		defer conn.Close(s.t.Context())
		err = do(conn)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// settle waits until nothing can write events any more: every purchase is final or in review,
// all processes are stopped, and no session of a killed process is still active.
func (s *soak) settle() {
	s.t.Helper()
	s.none("SELECT count(*) FROM transaction_history WHERE status IN ('PENDING', 'UNKNOWN')", "open purchases")
	for i, role := range s.roles {
		if role == "worker" {
			s.nodes[i].stop()
		}
	}
	s.none("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL", "transactions that write")
	s.none("SELECT count(*) FROM outbox", "events that have no number yet")
	for i := range s.addrs {
		select {
		case <-s.nodes[i].ended:
			s.t.Error("an api process ended on its own")
		default:
		}
	}
}

func (s *soak) none(sql, what string) {
	s.t.Helper()
	eventually(s.t, "no "+what, func() error {
		if n := s.ask(sql); n > 0 {
			return fmt.Errorf("%d %s", n, what)
		}
		return nil
	})
}

// customers buy at a rate until they are stopped.
type customers struct {
	s     *soak
	n     atomic.Int64
	least int64
	began time.Time
	stop  chan struct{}
	done  chan struct{}
}

func (s *soak) customers(least, rate int) *customers {
	c := &customers{s: s, least: int64(least), began: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	go c.come(rate)
	s.t.Cleanup(func() { c.close(); <-c.done })
	return c
}

// come starts a customer whenever one is due and fewer than the maximum are active.
func (c *customers) come(rate int) {
	defer close(c.done)
	var all sync.WaitGroup
	defer all.Wait()
	places, due := make(chan struct{}, soakCustomers), time.NewTicker(time.Second/time.Duration(rate))
	defer due.Stop()
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		case <-due.C:
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			c.buy(i)
		})
	}
}

// buy repeats an order with its own key until the response is not a problem.
func (c *customers) buy(i int) {
	order := soakOrder(fmt.Sprintf("customer-%d", i), i%soakAccounts, soakSymbols[i%len(soakSymbols)])
	var err error
	for deadline := time.Now().Add(2 * waitTimeout); time.Now().Before(deadline); {
		if _, err = c.s.clients[i%soakAccounts].Buy(context.Background(), order); err == nil {
			c.n.Add(1)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	c.s.t.Errorf("customer %d gets no answer: %v", i, err)
}

func (c *customers) bought() int64 { return c.n.Load() }

func (c *customers) close() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
}

// end waits for the minimum number of purchases, starts no more customers, waits for the active
// ones, and returns how long it took.
func (c *customers) end() time.Duration {
	for c.bought() < c.least && !c.s.t.Failed() {
		<-time.After(20 * time.Millisecond)
	}
	c.close()
	<-c.done
	return time.Since(c.began)
}
