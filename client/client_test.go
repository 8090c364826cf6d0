package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/client"
)

func TestCallsOfAClient(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, _ := h.client(t, "client", "acct-1")
	order := client.Order{
		IdempotencyKey: "k-1", AccountID: "acct-1", Symbol: "AAPL", Quantity: "10", LimitPrice: "25.00",
		Metadata: []byte(`{"by":"test"}`),
	}
	first, err := c.Buy(t.Context(), order)
	if err != nil || !first.Final() || first.Replayed || string(first.Metadata) != `{"by":"test"}` {
		t.Fatalf("bought %+v: %v", first, err)
	}
	again, err := c.Buy(t.Context(), order)
	if err != nil || again.ID != first.ID || !again.Replayed || again.Code != first.Code {
		t.Errorf("a repeat: %+v: %v", again, err)
	}
	got, err := c.Wait(t.Context(), first.ID, time.Second)
	if err != nil || got.Status != client.StatusCompleted || got.Outcome != client.OutcomeCompleted {
		t.Errorf("got %+v: %v", got, err)
	}
	page, err := c.List(t.Context(), client.ListParams{Status: client.StatusCompleted, Limit: 5})
	if err != nil || len(page.Data) != 1 || page.NextCursor != nil {
		t.Errorf("listed %+v: %v", page, err)
	}
	history, err := c.History(t.Context(), first.ID)
	if err != nil || len(history) != 3 || history[0].Kind != "status" {
		t.Errorf("history %+v: %v", history, err)
	}
	acc, err := c.Account(t.Context(), "acct-1")
	if err != nil || acc.Deposited != "1000.00" || acc.Reserved != "0.00" {
		t.Errorf("account %+v: %v", acc, err)
	}
	ticket, err := c.StreamTicket(t.Context())
	if err != nil || ticket.Ticket == "" || time.Until(ticket.ExpiresAt) <= 0 {
		t.Errorf("ticket %+v: %v", ticket, err)
	}
}

func TestCallsOfAnOperator(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, _ := h.client(t, "operator", "")
	if acc, err := c.CreateAccount(t.Context(), client.NewAccount{ID: "acct-9", Currency: "EUR", Available: "5.00"}); err != nil || acc.Available != "5.00" {
		t.Errorf("created %+v: %v", acc, err)
	}
	deposit := client.Deposit{IdempotencyKey: "d-1", AccountID: "acct-9", Amount: "2.50", Note: "more"}
	for range 2 {
		if acc, err := c.Deposit(t.Context(), deposit); err != nil || acc.Available != "7.50" {
			t.Errorf("deposited %+v: %v", acc, err)
		}
	}
	for _, paused := range []bool{true, false} {
		if err := c.SetSwitch(t.Context(), client.Switch{Name: "passes", Paused: paused, Note: "test"}); err != nil {
			t.Error(err)
		}
	}
	if s, err := c.Summary(t.Context()); err != nil || s.Switches["passes"] != "on" || s.Broker.State != "closed" {
		t.Errorf("summary %+v: %v", s, err)
	}
	n, err := c.ReconcileMany(t.Context(), client.Reconciliation{Status: client.StatusUnknown, OlderThan: "1m", DryRun: true})
	if err != nil || n != 0 {
		t.Errorf("reconciled %d: %v", n, err)
	}
	if page, err := c.Findings(t.Context(), client.FindingListParams{Status: "open", Limit: 5}); err != nil || len(page.Data) != 0 {
		t.Errorf("findings %+v: %v", page, err)
	}
	unknown := "0198f2c4-0000-7000-8000-000000000000"
	if _, err := c.CloseFinding(t.Context(), unknown, "n"); slug(err) != "not-found" {
		t.Errorf("closing of nothing: %v", err)
	}
	if _, err := c.Reconcile(t.Context(), unknown); slug(err) != "not-found" {
		t.Errorf("reconcile of nothing: %v", err)
	}
	if _, err := c.Resolve(t.Context(), unknown, client.Resolution{Outcome: client.OutcomeRejected, Note: "n"}); slug(err) != "not-found" {
		t.Errorf("resolution of nothing: %v", err)
	}
}

// slug is the kind of problem that err is.
func slug(err error) string {
	var p *client.Problem
	if errors.As(err, &p) {
		return p.Slug()
	}
	return ""
}

func TestProblems(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, _ := h.client(t, "client", "acct-1")
	cases := map[string]struct {
		order client.Order
		want  string
	}{
		"NoKey":   {client.Order{AccountID: "acct-1", Symbol: "AAPL", Notional: "1"}, "idempotency-key-invalid"},
		"Invalid": {client.Order{IdempotencyKey: "a", AccountID: "acct-1", Symbol: "a", Notional: "0"}, "invalid-request"},
		"Funds":   {client.Order{IdempotencyKey: "b", AccountID: "acct-1", Symbol: "AAPL", Notional: "1000.01"}, "insufficient-funds"},
		"Others":  {client.Order{IdempotencyKey: "c", AccountID: "acct-2", Symbol: "AAPL", Notional: "1"}, "account-not-found"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.Buy(t.Context(), test.order); slug(err) != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// What a proxy answers must not be taken for Holdfast's word.
func TestAProxysAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "<h1>Bad gateway</h1>", http.StatusBadGateway)
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := client.New(client.Config{URL: server.URL, Key: "k", HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Purchase(t.Context(), "x")
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != http.StatusBadGateway || p.RetryAfter != 7*time.Second {
		t.Errorf("got %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]client.Config{
		"NoURL": {Key: "k"}, "NoScheme": {URL: "localhost:8080", Key: "k"}, "NoKey": {URL: "http://localhost"},
	} {
		if _, err := client.New(config); err == nil {
			t.Errorf("%s: made a client", name)
		}
	}
}
