package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sandbox"
)

// world is a database, a broker in a separate process, and an account with its keys.
type world struct {
	database         string
	settings         []string
	broker           *sandbox.Sandbox
	client, operator string
}

// quick are settings with short waits: the same rules, in a hundredth of the time.
var quick = []string{
	"HOLDFAST_BROKER_TIMEOUT=1s", "HOLDFAST_BROKER_SETTLE=200ms", "HOLDFAST_PENDING_GRACE=2s",
	"HOLDFAST_SWEEP_INTERVAL=500ms", "HOLDFAST_RESCUE_AFTER=4s", "HOLDFAST_RETRY_BASE=200ms",
	"HOLDFAST_RETRY_CAP=400ms", "HOLDFAST_RETRY_MAX_ATTEMPTS=3",
}

func setup(t *testing.T, more ...string) *world {
	t.Helper()
	return setupOn(t, pgtest.NewURL(t), more...)
}

// setupOn is setup with a given database.
func setupOn(t *testing.T, database string, more ...string) *world {
	t.Helper()
	broker, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(broker.Handler())
	t.Cleanup(func() { _ = broker.Close(); server.CloseClientConnections(); server.Close() })
	w := &world{database: database, broker: broker, settings: append(append([]string{
		"HOLDFAST_DATABASE_URL=" + database, "HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=" + server.URL,
	}, quick...), more...)}
	must(t, w.settings, "account", "create", "--id", "acct-1", "--currency", "USD", "--available", "10000.00")
	w.client = lastLine(must(t, w.settings, "key", "create", "--scope", "client", "--account", "acct-1"))
	w.operator = lastLine(must(t, w.settings, "key", "create", "--scope", "operator"))
	return w
}

// Each outcome is visible by GET and on the stream; the money is exact, and the audit passes.
func TestEveryOutcome(t *testing.T) {
	t.Parallel()
	everyOutcome(t, setup(t))
}

func everyOutcome(t *testing.T, w *world) {
	t.Helper()
	s := launch(t, w.settings)
	seen := s.follow(w.client)
	for _, test := range []struct {
		symbol, status, evidence string
		code                     int
	}{
		{"AAPL", "COMPLETED", "reply", 201},
		{"REJECT", "REJECTED", "reply", 422},
		{"ERR500-BOOKED", "COMPLETED", "lookup", 202},
		{"TIMEOUT-BOOKED", "COMPLETED", "lookup", 202},
		{"TIMEOUT-REJECTED", "REJECTED", "lookup", 202},
		{"DROP-LOST", "COMPLETED", "replay", 202},
		{"ERR500-FOREVER", "MANUAL_REVIEW", "", 202},
	} {
		a, p := s.buy(w.client, "acct-1", test.symbol, "key-"+test.symbol)
		if a.status != test.code {
			t.Errorf("%s: status %d, want %d: %s", test.symbol, a.status, test.code, a.body)
		}
		p = s.awaitStatus(w.client, p.ID, test.status)
		if got := text(p.Evidence); got != test.evidence {
			t.Errorf("%s: evidence %q, want %q", test.symbol, got, test.evidence)
		}
		eventually(t, "events of "+test.symbol, func() error { return wholeStory(seen(), p) })
	}
	var acc accountView
	s.get("/v1/accounts/acct-1", w.client, &acc)
	if want := (accountView{"8750.00", "250.00", "1000.00", "10000.00"}); acc != want {
		t.Errorf("account = %+v, want %+v", acc, want)
	}
	auditHolds(t, w.settings)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// wholeStory returns an error unless a purchase's events are the versions 2 to its current one
// and end in its status.
func wholeStory(seen []event, p purchaseView) error {
	next := 2
	var last string
	for _, e := range seen {
		if e.PurchaseID != p.ID {
			continue
		}
		if e.Version != next || e.Name != "purchase."+strings.ToLower(e.Status) {
			return fmt.Errorf("event %+v, want version %d", e, next)
		}
		next, last = next+1, e.Status
	}
	if next != p.Version+1 || last != p.Status {
		return fmt.Errorf("events up to version %d and %q, want %d and %s", next-1, last, p.Version, p.Status)
	}
	return nil
}

// An operator decides the purchases that the workers could not settle.
func TestOperatorResolves(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	_, p := s.buy(w.client, "acct-1", "ERR500-FOREVER", "k")
	s.awaitStatus(w.client, p.ID, "MANUAL_REVIEW")
	a, err := s.call(http.MethodPost, "/v1/purchases/"+p.ID+"/resolution", w.operator,
		`{"outcome":"rejected","note":"the broker's desk says no"}`)
	if err != nil || a.status != http.StatusOK {
		t.Fatalf("resolve: %d, %v: %s", a.status, err, a.body)
	}
	if p = s.awaitStatus(w.client, p.ID, "REJECTED"); text(p.Evidence) != "operator" || p.Reserved != "0.00" {
		t.Errorf("purchase = %+v", p)
	}
	auditHolds(t, w.settings)
}

// The process dies while the broker processes the order: the next one reconciles the purchase,
// and buys nothing twice.
func TestKilledInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if err := w.broker.Script(sandbox.Response{Call: "place", Delay: sandbox.Duration(30 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	s := launch(t, w.settings)
	hungUp := make(chan struct{})
	go func() {
		defer close(hungUp)
		_, _ = s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k")
	}()
	eventually(t, "the call is in progress", func() error {
		if w.broker.Ledger("").Places == 0 {
			return errors.New("no place yet")
		}
		return nil
	})
	s.kill()
	<-hungUp
	s = launch(t, w.settings)
	a, p := s.buy(w.client, "acct-1", "AAPL", "k")
	if a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the purchase was forgotten: %d %s", a.status, a.body)
	}
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	if orders := w.broker.Ledger("").Orders; orders != 1 {
		t.Errorf("the broker has %d orders", orders)
	}
	var acc accountView
	s.get("/v1/accounts/acct-1", w.client, &acc)
	if want := (accountView{"9750.00", "0.00", "250.00", "10000.00"}); acc != want {
		t.Errorf("account = %+v, want %+v", acc, want)
	}
	auditHolds(t, w.settings)
}
