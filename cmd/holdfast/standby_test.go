package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testkit/pgtest"
)

// pair is a primary and its synchronous standby, each at a network address.
type pair struct {
	primary, standby *pgtest.Cluster
	// first and second are the paths to them, between is the standby's path to the primary.
	first, second, between *network
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{primary: pgtest.Own(t)}
	p.between = networkTo(t, p.primary)
	host, port := p.between.address()
	p.standby = p.primary.Standby(t, host, port)
	p.first, p.second = networkTo(t, p.primary), networkTo(t, p.standby)
	return p
}

// url names both servers; keywords does so in keyword/value form.
func (p *pair) url() string {
	return fmt.Sprintf("postgres://holdfast@%s,%s/holdfast?sslmode=disable&target_session_attrs=read-write",
		p.first.listener.Addr(), p.second.listener.Addr())
}

func (p *pair) keywords() string {
	hostA, portA := p.first.address()
	hostB, portB := p.second.address()
	return fmt.Sprintf("host=%s,%s port=%s,%s user=holdfast dbname=holdfast sslmode=disable target_session_attrs=read-write",
		hostA, hostB, portA, portB)
}

// patient are settings for purchases that must survive a failover.
var patient = []string{
	"HOLDFAST_RETRY_MAX_ATTEMPTS=200", "HOLDFAST_RETRY_MAX_AGE=10m", "HOLDFAST_BROKER_RATE=1000",
}

// The primary dies and its synchronous standby takes over. Both roles reconnect to it
// automatically, with either form of the address; no acknowledged purchase is lost, no event is
// missing, and no number is used twice.
func TestFailover(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	w := setupOn(t, p.url(), patient...)
	api := launch(t, w.settings, "--role", "api")
	launch(t, append(w.settings, "HOLDFAST_DATABASE_URL="+p.keywords()), "--role", "worker")
	f := startTraffic(t, w, api)
	f.flows(30)
	p.primary.Crash(t)
	p.standby.Promote(t)
	t.Logf("purchases and events continue after %s", f.flows(30).Round(time.Millisecond))
	f.end(w.settings, p.standby.URL())
}

// The standby becomes unreachable, so the primary may acknowledge nothing; then it dies.
func TestFailoverAfterTheStandbyFellSilent(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	w := setupOn(t, p.url(), patient...)
	api := launch(t, w.settings)
	f := startTraffic(t, w, api)
	f.flows(20)
	p.between.lose(true)
	_, before, _ := f.counts()
	eventually(t, "purchases are refused", func() error {
		if _, refused, _ := f.counts(); refused < before+3 {
			return fmt.Errorf("%d refusals", refused-before)
		}
		return nil
	})
	p.primary.Crash(t)
	p.standby.Promote(t)
	f.flows(20)
	f.end(w.settings, p.standby.URL())
}

// The old primary stays up, read-only, and keeps every connection. All pools must leave it,
// including those that only wait for work.
func TestFailoverFromALivingPrimary(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	w := setupOn(t, p.url(), patient...)
	api := launch(t, w.settings)
	f := startTraffic(t, w, api)
	f.flows(20)
	setReadOnly(t, p.primary, "on")
	p.standby.Promote(t)
	t.Logf("purchases and events continue after %s", f.flows(20).Round(time.Millisecond))
	f.end(w.settings, p.standby.URL())
}

// The only server is read-only for a while, like one that is being promoted: it counts as
// unavailable, and no other error is reported.
func TestServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	w := setupOn(t, cluster.URL(), patient...)
	s := launch(t, w.settings)
	f := startTraffic(t, w, s)
	f.flows(10)
	setReadOnly(t, cluster, "on")
	_, before, _ := f.counts()
	eventually(t, "purchases are refused, and it is not ready", func() error {
		a, err := s.call(http.MethodGet, "/readyz", "", "")
		if _, refused, _ := f.counts(); err != nil || refused < before+10 || a.status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d refusals, ready: %d, %w", refused-before, a.status, err)
		}
		return nil
	})
	setReadOnly(t, cluster, "off")
	f.flows(10)
	f.end(w.settings, cluster.URL())
}

func setReadOnly(t *testing.T, cluster *pgtest.Cluster, to string) {
	t.Helper()
	cluster.Exec(t, "ALTER SYSTEM SET default_transaction_read_only = "+to)
	cluster.Exec(t, "SELECT pg_reload_conf()")
}

// A synchronous standby stops responding: however often a client repeats the request, no
// response says that nothing was recorded, because the purchase is recorded when the standby is
// removed.
func TestSilentStandbyIsFateUnknown(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	w := setupOn(t, cluster.URL(), append([]string{"HOLDFAST_BROKER_TIMEOUT=1s", "HOLDFAST_PENDING_GRACE=15s",
		"HOLDFAST_SWEEP_INTERVAL=500ms", "HOLDFAST_BROKER_SETTLE=100ms"}, patient...)...)
	s := launch(t, w.settings)
	s.buy(w.client, "acct-1", "AAPL", "first")
	cluster.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	cluster.Exec(t, "SELECT pg_reload_conf()")
	post := func() answer {
		a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "once")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 2 {
		a := post()
		if a.status != http.StatusGatewayTimeout || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "/fate-unknown") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	cluster.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names")
	cluster.Exec(t, "SELECT pg_reload_conf()")
	eventually(t, "the purchase is reconciled", func() error {
		if a := post(); a.status != http.StatusOK || a.header.Get("Idempotent-Replayed") != "true" {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	if n := len(w.broker.Ledger("").Data); n != 2 {
		t.Errorf("the broker has %d orders, want this one and the first", n)
	}
	auditHolds(t, w.settings)
}
