package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/sandbox"
)

// HOLDFAST_TEST_PURCHASES sets the size of the outage; the default is for every run of the
// suite.
func outageSize(t *testing.T) int {
	t.Helper()
	text := os.Getenv("HOLDFAST_TEST_PURCHASES")
	if text == "" {
		return 60
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// outage is two api and two worker processes in front of a broker that fails.
type outage struct {
	*world
	t      *testing.T
	roles  []string
	nodes  []*serving
	apis   [2]atomic.Pointer[string]
	alerts alertLog
}

// Two api and two worker processes are killed at random while the broker is down, slow, wrong
// and back. In the end every purchase is final or in review, the broker's orders and ours
// agree, nothing was bought twice, the money is exact, and each review has one alert.
func TestOutage(t *testing.T) {
	t.Parallel()
	o := &outage{t: t, roles: []string{"api", "api", "worker", "worker"}}
	hook := httptest.NewServer(&o.alerts)
	t.Cleanup(hook.Close)
	o.world = setup(t,
		"HOLDFAST_BROKER_TIMEOUT=500ms", "HOLDFAST_BROKER_SETTLE=400ms", "HOLDFAST_PENDING_GRACE=1500ms",
		"HOLDFAST_RESCUE_AFTER=2s", "HOLDFAST_RETRY_CAP=1s", "HOLDFAST_RETRY_MAX_ATTEMPTS=200",
		"HOLDFAST_RETRY_MAX_AGE=10m", "HOLDFAST_BREAKER_FAILURES=5", "HOLDFAST_BREAKER_OPEN=500ms",
		"HOLDFAST_BROKER_RATE=1000", "HOLDFAST_ALERT_WEBHOOK_URL="+hook.URL, "HOLDFAST_ALERT_WEBHOOK_SECRET=a-secret-of-24-characters")
	must(t, o.settings, "account", "deposit", "--id", "acct-1", "--amount", "10000000.00")
	for i, role := range o.roles {
		o.nodes = append(o.nodes, nil)
		o.start(i, role)
	}
	size := outageSize(t)
	bought := make(chan error, size)
	go o.customers(size, bought)
	o.disturb(size, bought)
	o.settle(size)
}

func (o *outage) start(i int, role string) {
	o.nodes[i] = launch(o.t, o.settings, "--role", role)
	if role == "api" {
		o.apis[i].Store(&o.nodes[i].addr)
	}
}

// customers buy, several at a time, and each repeats its request with its own key until the
// response is not a problem.
func (o *outage) customers(size int, bought chan<- error) {
	places := make(chan struct{}, 8)
	var all sync.WaitGroup
	for i := range size {
		places <- struct{}{}
		all.Go(func() {
			bought <- o.customer(i)
			<-places
		})
	}
	all.Wait()
	close(bought)
}

func (o *outage) customer(i int) error {
	var last string
	for deadline := time.Now().Add(2 * waitTimeout); time.Now().Before(deadline); {
		s := &serving{addr: *o.apis[rand.IntN(len(o.apis))].Load()}
		a, err := s.call(http.MethodPost, "/v1/purchases", o.client, order("acct-1", "AAPL"), "Idempotency-Key", fmt.Sprintf("customer-%d", i))
		if err == nil && !strings.Contains(a.header.Get("Content-Type"), "problem") {
			return nil
		}
		last = fmt.Sprint(a.status, a.body, err)
		<-time.After(50 * time.Millisecond)
	}
	return errors.New(last)
}

// disturb goes through the broker's faults until every customer has an answer, and at least
// once through all of them, and kills a process during each.
func (o *outage) disturb(size int, bought <-chan error) {
	o.t.Helper()
	troubles := []sandbox.Mode{
		{}, {Outage: "drop"}, {Delay: sandbox.Duration(600 * time.Millisecond)}, {Lag: sandbox.Duration(300 * time.Millisecond)},
		{Outage: "error"}, {Corrupt: "quantity"}, {Outage: "stall"}, {StoreErrors: true},
	}
	answered := 0
	for round := 0; round < len(troubles) || answered < size; round++ {
		if err := o.broker.SetMode(troubles[round%len(troubles)]); err != nil {
			o.t.Fatal(err)
		}
		victim := rand.IntN(len(o.nodes))
		over := time.After(300*time.Millisecond + rand.N(500*time.Millisecond))
		for waiting := true; waiting; {
			select {
			case err, open := <-bought:
				if !open {
					bought = nil
					continue
				}
				answered++
				if err != nil {
					o.t.Fatalf("a customer got no answer: %v", err)
				}
			case <-over:
				waiting = false
			}
		}
		o.nodes[victim].kill()
		o.start(victim, o.roles[victim])
	}
	if err := o.broker.SetMode(sandbox.Mode{}); err != nil {
		o.t.Fatal(err)
	}
}

// settle waits until the workers have reconciled everything, and compares.
func (o *outage) settle(size int) {
	o.t.Helper()
	api := o.nodes[0]
	eventually(o.t, "everything is reconciled", func() error {
		var summary struct {
			Counts map[string]int `json:"counts"`
		}
		api.get("/v1/summary", o.operator, &summary)
		if open := summary.Counts["PENDING"] + summary.Counts["UNKNOWN"]; open > 0 {
			return fmt.Errorf("%d purchases are open", open)
		}
		return nil
	})
	purchases := o.all()
	if len(purchases) != size {
		o.t.Errorf("%d customers have %d purchases", size, len(purchases))
	}
	reviews := o.compare(purchases)
	o.t.Logf("%d purchases, %d in review, %d broker calls", len(purchases), reviews, o.broker.Ledger("").Places)
	eventually(o.t, "alerts", func() error { return o.alerts.oneEach(purchases) })
	eventually(o.t, "audit", func() error {
		if r := command(o.t, o.settings, "audit"); r.code != exitDone {
			return errors.New(r.out + r.err)
		}
		return nil
	})
}

// all reads every purchase, page by page.
func (o *outage) all() []purchaseView {
	o.t.Helper()
	var all []purchaseView
	for cursor := ""; ; {
		var page struct {
			Data       []purchaseView `json:"data"`
			NextCursor *string        `json:"next_cursor"`
		}
		o.nodes[0].get("/v1/purchases?limit=500"+cursor, o.operator, &page)
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(*page.NextCursor)
	}
}

// compare compares our purchases with the broker's orders.
func (o *outage) compare(purchases []purchaseView) (reviews int) {
	o.t.Helper()
	booked := map[string]bool{}
	for _, entry := range o.broker.Ledger("").Data {
		booked[entry.Key] = entry.Order != nil && entry.Order.Status == "completed"
	}
	for _, p := range purchases {
		switch p.Status {
		case "COMPLETED":
			if !booked[p.BrokerKey] {
				o.t.Errorf("%s is completed, but the broker has no such order", p.ID)
			}
		case "REJECTED":
			if booked[p.BrokerKey] {
				o.t.Errorf("%s is rejected, but the broker bought it", p.ID)
			}
		default:
			reviews++
		}
		delete(booked, p.BrokerKey)
	}
	for id, bought := range booked {
		if bought {
			o.t.Errorf("the broker bought %s, which has no completed purchase", id)
		}
	}
	return reviews
}

// alertLog is a webhook that sometimes fails and records the alerts.
type alertLog struct {
	mu      sync.Mutex
	calls   int
	reviews map[string]map[string]bool // purchase id, webhook id
}

func (l *alertLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var alert struct {
		Type string `json:"type"`
		Data struct {
			PurchaseID string `json:"purchase_id"`
		} `json:"data"`
	}
	_ = json.Unmarshal(body, &alert)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls++; l.calls%4 == 0 {
		w.WriteHeader(http.StatusBadGateway)
	}
	if alert.Type != "purchase.manual_review" {
		return
	}
	if l.reviews == nil {
		l.reviews = map[string]map[string]bool{}
	}
	if l.reviews[alert.Data.PurchaseID] == nil {
		l.reviews[alert.Data.PurchaseID] = map[string]bool{}
	}
	l.reviews[alert.Data.PurchaseID][r.Header.Get("webhook-id")] = true
}

// oneEach reports whether each purchase in review was alerted under one id, and no other
// purchase was.
func (l *alertLog) oneEach(purchases []purchaseView) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range purchases {
		want := 0
		if p.Status == "MANUAL_REVIEW" {
			want = 1
		}
		if got := len(l.reviews[p.ID]); got != want {
			return fmt.Errorf("%s is %s and has %d alerts", p.ID, p.Status, got)
		}
	}
	return nil
}
