package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/config"
)

// talk returns the settings of a command that uses the API of s.
func (s *serving) talk(key string) []string {
	return []string{"HOLDFAST_URL=http://" + s.addr, "HOLDFAST_API_KEY=" + key}
}

func buying(symbol string, more ...string) []string {
	return append([]string{"buy", "--account", "acct-1", "--symbol", symbol, "--quantity", "10", "--limit-price", "25.00", "--json"}, more...)
}

func TestCommandsOfTheAPI(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	client, operator := s.talk(w.client), s.talk(w.operator)
	watching := spawn(t, client, "watch", "--after", "0", "--json")

	var p purchaseView
	decode(t, must(t, client, buying("AAPL", "--idempotency-key", "k1")...), &p)
	if p.Status != "COMPLETED" {
		t.Errorf("bought %+v", p)
	}
	first := p.ID
	decode(t, must(t, client, buying("AAPL", "--idempotency-key", "k1")...), &p)
	if p.ID != first {
		t.Error("the same key bought again")
	}
	if r := command(t, client, buying("REJECT")...); r.code != exitFailed || !strings.Contains(r.out, `"outcome":"rejected"`) {
		t.Errorf("rejected: exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := command(t, client, buying("aapl")...); r.code != exitUsage || !strings.Contains(r.err, "symbol") {
		t.Errorf("wrong symbol: exit %d, %s", r.code, r.err)
	}
	decode(t, must(t, client, buying("DROP-LOST", "--wait", "20s")...), &p)
	if p.Status != "COMPLETED" {
		t.Errorf("waited for %+v", p)
	}
	shown := must(t, operator, "show", p.ID)
	for _, word := range []string{"COMPLETED", "by replay", "connection_closed", "lookup", "absent", "worker", "hf-"} {
		if !strings.Contains(shown, word) {
			t.Errorf("show lacks %q:\n%s", word, shown)
		}
	}

	decode(t, must(t, client, buying("ERR500-FOREVER")...), &p)
	s.awaitStatus(w.client, p.ID, "MANUAL_REVIEW")
	if list := must(t, client, "list", "--status", "MANUAL_REVIEW"); !strings.Contains(list, p.ID) || strings.Contains(list, first) {
		t.Errorf("list:\n%s", list)
	}
	if out := must(t, operator, "reconcile", "--status", "MANUAL_REVIEW", "--dry-run", "--json"); !strings.Contains(out, `"count":1`) {
		t.Errorf("dry run: %s", out)
	}
	must(t, operator, "reconcile", p.ID)
	s.awaitStatus(w.client, p.ID, "MANUAL_REVIEW")
	must(t, operator, "resolve", p.ID, "--outcome", "rejected", "--note", "asked the desk")
	if r := command(t, operator, "resolve", p.ID, "--outcome", "completed", "--note", "no, yes"); r.code != exitFailed || !strings.Contains(r.err, "already-settled") {
		t.Errorf("resolved again: exit %d, %s", r.code, r.err)
	}
	if r := command(t, client, "resolve", first, "--outcome", "rejected", "--note", "mine"); r.code != exitFailed || !strings.Contains(r.err, "forbidden") {
		t.Errorf("a client resolves: exit %d, %s", r.code, r.err)
	}
	p = s.awaitStatus(w.client, p.ID, "REJECTED")
	eventually(t, "watched", func() error { return wholeStory(watched(watching.out.String()), p) })
	if code := watching.stop(); code != exitDone {
		t.Errorf("watch: exit %d, %s", code, watching.err.String())
	}
	auditHolds(t, w.settings)
}

func TestSwitchPausesIntake(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	operator := s.talk(w.operator)
	must(t, operator, "switch", "pause", "intake", "--note", "the broker asked")
	if a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k"); err != nil || a.status != http.StatusServiceUnavailable {
		t.Errorf("bought while paused: %d, %v: %s", a.status, err, a.body)
	}
	must(t, operator, "switch", "resume", "intake")
	if a, p := s.buy(w.client, "acct-1", "AAPL", "k"); a.status != http.StatusCreated {
		t.Errorf("after resuming: %d, %+v", a.status, p)
	}
	auditHolds(t, w.settings)
}

// envOf looks up the variables that a test sets.
func envOf(pairs []string) config.Env {
	set := config.Env{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return set
}

// Progress is printed to a terminal, but not to a program that reads stderr.
func TestWaitingTellsAPerson(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_RETRY_MAX_ATTEMPTS=1000")
	s := launch(t, w.settings)
	for interactive, want := range map[bool]string{true: "is UNKNOWN (broker_5xx) after", false: ""} {
		var out, errOut output
		a := cli{env: envOf(s.talk(w.client)), out: &out, errOut: &errOut, interactive: interactive}
		args := []string{"buy", "--account", "acct-1", "--symbol", "ERR500-FOREVER", "--notional", "1.00", "--wait", "1200ms"}
		if code := run(t.Context(), a, args); code != exitDone {
			t.Errorf("exit %d: %s", code, errOut.String())
		}
		printed := errOut.String()
		if !strings.Contains(printed, want) || (want == "") != (printed == "") || !strings.Contains(out.String(), "pending_reconciliation") {
			t.Errorf("interactive %t: printed %q, printed %s", interactive, printed, out.String())
		}
	}
}

// A request above the rate limit is refused before anything is read, with a Retry-After.
func TestRateLimitOfAKey(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_RATE_LIMIT=0.02")
	s := launch(t, w.settings)
	if a, _ := s.buy(w.client, "acct-1", "AAPL", "k"); a.status != http.StatusCreated {
		t.Fatalf("the first: %d %s", a.status, a.body)
	}
	for _, body := range []string{order("acct-1", "AAPL"), "no JSON"} {
		a, err := s.call(http.MethodPost, "/v1/purchases", w.client, body, "Idempotency-Key", "k")
		if err != nil || a.status != http.StatusTooManyRequests || a.header.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(a.body, "/rate-limited") {
			t.Errorf("%d, %v: %s", a.status, err, a.body)
		}
		if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 1 || wait > 50 {
			t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
		}
	}
	if a, err := s.call(http.MethodGet, "/v1/summary", w.operator, ""); err != nil || a.status != http.StatusOK {
		t.Errorf("another key: %d, %v", a.status, err)
	}
	if places := w.broker.Ledger("").Places; places != 1 {
		t.Errorf("the broker was called %d times", places)
	}
}

// If the server is unreachable, the outcome is unknown: the command says so, with the key for
// repeating the purchase.
func TestBuyUnderTheSameKeyAgain(t *testing.T) {
	t.Parallel()
	r := command(t, []string{"HOLDFAST_URL=http://127.0.0.1:1", "HOLDFAST_API_KEY=k"}, buying("AAPL")...)
	if r.code != exitFailed || !strings.Contains(r.err, "--idempotency-key cli-") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
}

// watched reads the complete lines that watch --json has printed.
func watched(out string) []event {
	var seen []event
	for line := range strings.Lines(out) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil {
			e.Name = "purchase." + strings.ToLower(e.Status)
			seen = append(seen, e)
		}
	}
	return seen
}
