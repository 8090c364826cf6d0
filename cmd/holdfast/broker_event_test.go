package main

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"holdfast/sandbox"
)

// A purchase whose answer was lost, and whose first lookup failed, would wait ten minutes for
// the next one. The broker's event settles it in about one round trip.
func TestBrokerEventSettlesALostAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_RETRY_BASE=10m", "HOLDFAST_RETRY_CAP=30m", "HOLDFAST_BREAKER_FAILURES=0")
	key := lastLine(must(t, w.settings, "key", "create", "--scope", "broker"))
	if err := w.broker.Script(sandbox.Response{Call: "lookup", Status: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	s := launch(t, w.settings)
	_, p := s.buy(w.client, "acct-1", "DROP-BOOKED", "k")
	var waits struct {
		Status    string    `json:"status"`
		Attempts  int       `json:"attempts"`
		NextRetry time.Time `json:"next_retry"`
	}
	eventually(t, "the first pass", func() error {
		s.get("/v1/purchases/"+p.ID, w.client, &waits)
		if waits.Attempts != 1 || waits.Status != "UNKNOWN" || time.Until(waits.NextRetry) < 5*time.Minute {
			return errors.New("no pass has failed yet")
		}
		return nil
	})
	orders := w.broker.Ledger("").Data
	if len(orders) != 1 {
		t.Fatalf("orders %+v", orders)
	}
	reported := time.Now()
	a, err := s.call(http.MethodPost, "/v1/broker-events", key, `{"client_order_id":"`+orders[0].Key+`"}`)
	if err != nil || a.status != http.StatusAccepted {
		t.Fatalf("report: %d, %v: %s", a.status, err, a.body)
	}
	if p = s.awaitStatus(w.client, p.ID, "COMPLETED"); text(p.Evidence) != "lookup" {
		t.Errorf("purchase = %+v", p)
	}
	took := time.Since(reported)
	t.Logf("settled %s after the event", took.Round(time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("settled %s after the event, want a round trip and at most one poll", took)
	}
	auditHolds(t, w.settings)
}
