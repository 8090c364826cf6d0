package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/sandbox"
)

// kindLog is a webhook that records the types of the alerts it received.
type kindLog struct {
	mu    sync.Mutex
	kinds []string
}

func (l *kindLog) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var alert struct {
		Type string `json:"type"`
	}
	_ = json.NewDecoder(r.Body).Decode(&alert)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds = append(l.kinds, alert.Type)
}

// received reports whether exactly these types have arrived, in any order.
func (l *kindLog) received(want ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := slices.Sorted(slices.Values(l.kinds))
	if !slices.Equal(got, want) {
		return fmt.Errorf("alerts %v, want %v", got, want)
	}
	return nil
}

// While the broker is down, new purchases are refused before anything is recorded; when it is
// back they are accepted. Each change is alerted once, however often it happens within the
// hour.
func TestBreakerRefusesAndTells(t *testing.T) {
	t.Parallel()
	var alerts kindLog
	hook := httptest.NewServer(&alerts)
	t.Cleanup(hook.Close)
	w := setup(t, "HOLDFAST_BREAKER_FAILURES=3", "HOLDFAST_BREAKER_OPEN=300ms",
		"HOLDFAST_ALERT_WEBHOOK_URL="+hook.URL, "HOLDFAST_ALERT_WEBHOOK_SECRET=a-secret-of-24-characters")
	s := launch(t, w.settings)
	for outage := range 2 {
		w.breakDown(s, outage)
		eventually(t, "the alert broker.unavailable", func() error { return alerts.received([]string{"broker.recovered", "broker.unavailable"}[1-outage:]...) })
		if err := w.broker.SetMode(sandbox.Mode{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "buys again", func() error {
			if a := w.tryToBuy(s, fmt.Sprint("back-", outage)); a.status != http.StatusCreated {
				return fmt.Errorf("%d %s", a.status, a.body)
			}
			return w.wantBreaker(s, "closed")
		})
		eventually(t, "the alert broker.recovered", func() error { return alerts.received("broker.recovered", "broker.unavailable") })
	}
	eventually(t, "audit", func() error {
		if r := command(t, w.settings, "audit"); r.code != exitDone {
			return fmt.Errorf("%s%s", r.out, r.err)
		}
		return nil
	})
}

// breakDown stops the broker until the breaker opens, and checks what a client then gets.
func (w *world) breakDown(s *serving, outage int) {
	s.t.Helper()
	if err := w.broker.SetMode(sandbox.Mode{Outage: "drop"}); err != nil {
		s.t.Fatal(err)
	}
	bought := 0
	eventually(s.t, "refused", func() error {
		key := fmt.Sprint("down-", outage, "-", bought)
		a := w.tryToBuy(s, key)
		if bought++; a.status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		if !strings.Contains(a.body, "the broker does not answer") || a.header.Get("Retry-After") == "" {
			s.t.Errorf("refused with %v %s", a.header, a.body)
		}
		return nil
	})
	if err := w.wantBreaker(s, "open", "half_open"); err != nil {
		s.t.Error(err)
	}
}

func (w *world) tryToBuy(s *serving, key string) answer {
	s.t.Helper()
	a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", key)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (w *world) wantBreaker(s *serving, states ...string) error {
	var summary struct {
		Broker struct {
			State string `json:"state"`
		} `json:"broker"`
	}
	s.get("/v1/summary", w.operator, &summary)
	if !slices.Contains(states, summary.Broker.State) {
		return fmt.Errorf("breaker is %s, want %v", summary.Broker.State, states)
	}
	return nil
}
