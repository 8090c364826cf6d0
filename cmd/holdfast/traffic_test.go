package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/client"
)

// traffic is the load while the database fails: customers that repeat their requests until they
// have an answer, and a subscriber that reconnects and resumes.
type traffic struct {
	*outage

	mu       sync.Mutex
	answered []promise
	refused  int
	events   []client.Event
	lags     []time.Duration

	stopBuying, stopReading context.CancelFunc
	buying, reading         sync.WaitGroup
}

// promise is a purchase that was acknowledged to a customer.
type promise struct {
	id     string
	status int
}

// symbols are what the customers buy in turn.
var symbols = []string{"AAPL", "ERR500-BOOKED", "AAPL", "REJECT", "AAPL", "DROP-LOST"}

// startTraffic starts customers of the first process, which the subscriber also uses, and one
// customer of the second process, if there is one.
func startTraffic(t *testing.T, w *world, apis ...*serving) *traffic {
	t.Helper()
	must(t, w.settings, "account", "deposit", "--id", "acct-1", "--amount", "10000000.00")
	f := &traffic{outage: &outage{t: t, world: w, nodes: apis}}
	buying, stopBuying := context.WithCancel(context.Background())
	reading, stopReading := context.WithCancel(context.Background())
	f.stopBuying, f.stopReading = stopBuying, stopReading
	t.Cleanup(func() {
		stopBuying()
		stopReading()
		f.buying.Wait()
		f.reading.Wait()
	})
	f.reading.Go(func() { f.read(reading) })
	for c := range 3 {
		f.buying.Go(func() {
			for i := 0; buying.Err() == nil; i++ {
				f.buy(c/2, fmt.Sprintf("customer-%d-%d", c, i), symbols[(c+i)%len(symbols)])
			}
		})
	}
	return f
}

// buy repeats until the purchase is answered.
func (f *traffic) buy(where int, key, symbol string) {
	for deadline := time.Now().Add(2 * waitTimeout); time.Now().Before(deadline); {
		a, err := f.nodes[min(where, len(f.nodes)-1)].call(http.MethodPost, "/v1/purchases", f.client, order("acct-1", symbol), "Idempotency-Key", key)
		switch {
		case err != nil: // the process is unavailable
			<-time.After(50 * time.Millisecond)
			continue
		case isRetryable(a) && a.header.Get("Retry-After") != "":
			f.mu.Lock()
			f.refused++
			f.mu.Unlock()
			<-time.After(50 * time.Millisecond)
			continue
		case strings.Contains(a.header.Get("Content-Type"), "problem"):
			f.t.Errorf("%s: %d: %s", key, a.status, a.body)
		}
		f.mu.Lock()
		f.answered = append(f.answered, promise{field(a.body, "id"), a.status})
		f.mu.Unlock()
		<-time.After(20 * time.Millisecond)
		return
	}
	f.t.Errorf("%s: never answered", key)
}

// isRetryable reports whether a request was refused temporarily: nothing was recorded, or that
// is unknown.
func isRetryable(a answer) bool {
	return a.status == http.StatusServiceUnavailable && strings.Contains(a.body, "unavailable") ||
		a.status == http.StatusGatewayTimeout && strings.Contains(a.body, "fate-unknown")
}

func (f *traffic) read(ctx context.Context) {
	c, err := client.New(client.Config{URL: "http://" + f.nodes[0].addr, Key: f.operator, HTTP: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		f.t.Error(err)
		return
	}
	resync := func(reason string) { f.t.Errorf("resync: %s", reason) }
	for e, err := range c.Events(ctx, client.EventsParams{After: "0", OnResync: resync}) {
		if err != nil {
			f.t.Errorf("events: %v", err)
			return
		}
		f.mu.Lock()
		f.events = append(f.events, e)
		f.lags = append(f.lags, time.Since(e.OccurredAt))
		f.mu.Unlock()
	}
}

// prompt fails if events do not arrive within about a second of their change. The median
// counts: a busy machine delays some.
func (f *traffic) prompt() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	lags := slices.Sorted(slices.Values(f.lags))
	middle := lags[len(lags)/2]
	f.t.Logf("events come after %s, at most %s", middle.Round(time.Millisecond), lags[len(lags)-1].Round(time.Millisecond))
	if middle > time.Second {
		f.t.Error("events are late")
	}
}

// counts returns the number of answers and events so far.
func (f *traffic) counts() (answers, refused, events int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.answered), f.refused, len(f.events)
}

// flows waits until count more purchases are answered and events have arrived, and returns how
// long that took.
func (f *traffic) flows(n int) time.Duration {
	f.t.Helper()
	began := time.Now()
	answers, _, events := f.counts()
	eventually(f.t, "purchases and events flow", func() error {
		if a, r, e := f.counts(); a < answers+n || e < events+n {
			return fmt.Errorf("%d answers (%d refusals) and %d events more, want %d", a-answers, r, e-events, n)
		}
		return nil
	})
	return time.Since(began)
}

// end stops the customers, waits until everything is reconciled, compares with the customers'
// answers, the broker's orders and the log, and runs the audit.
func (f *traffic) end(settings []string, database string) {
	f.t.Helper()
	f.stopBuying()
	f.buying.Wait()
	eventually(f.t, "everything is reconciled", func() error {
		var summary struct {
			Counts map[string]int `json:"counts"`
		}
		f.nodes[0].get("/v1/summary", f.operator, &summary)
		if open := summary.Counts["PENDING"] + summary.Counts["UNKNOWN"]; open > 0 {
			return fmt.Errorf("%d purchases are open", open)
		}
		return nil
	})
	purchases := f.all()
	f.checkPromises(purchases)
	if reviews := f.compare(purchases); reviews > 0 {
		f.t.Errorf("%d purchases in review", reviews)
	}
	f.checkEvents(purchases, database)
	auditHolds(f.t, settings)
	answers, refused, events := f.counts()
	f.t.Logf("%d purchases answered, %d refusals, %d events", answers, refused, events)
}

// checkPromises: every acknowledged purchase exists, unchanged if its outcome was final.
func (f *traffic) checkPromises(purchases []purchaseView) {
	f.t.Helper()
	status := map[string]string{}
	for _, p := range purchases {
		status[p.ID] = p.Status
	}
	statusOf := map[int]string{http.StatusCreated: "COMPLETED", http.StatusOK: "COMPLETED", http.StatusUnprocessableEntity: "REJECTED"}
	for _, a := range f.answered {
		switch now := status[a.id]; {
		case now == "":
			f.t.Errorf("%s was answered with %d and is lost", a.id, a.status)
		case statusOf[a.status] != "" && statusOf[a.status] != now:
			f.t.Errorf("%s was answered with %d and is %s", a.id, a.status, now)
		}
	}
	if len(f.answered) != len(purchases) {
		f.t.Errorf("%d purchases answered, %d exist", len(f.answered), len(purchases))
	}
}

// checkEvents: the subscriber has exactly the log, in order and without a gap, and the log has
// every version of every purchase.
func (f *traffic) checkEvents(purchases []purchaseView, database string) {
	f.t.Helper()
	last := lastEvent(f.t, database)
	eventually(f.t, "all events", func() error {
		if _, _, events := f.counts(); events < last {
			return fmt.Errorf("%d of %d", events, last)
		}
		return nil
	})
	f.stopReading()
	f.reading.Wait()
	versions := map[string]int{}
	for i, e := range f.events {
		if e.ID != strconv.Itoa(i+1) {
			f.t.Fatalf("event %d has id %s", i+1, e.ID)
		}
		if want := max(versions[e.PurchaseID], 1) + 1; e.Version != want {
			f.t.Errorf("event %s: version %d of %s, want %d", e.ID, e.Version, e.PurchaseID, want)
		}
		versions[e.PurchaseID] = e.Version
	}
	for _, p := range purchases {
		if versions[p.ID] != p.Version {
			f.t.Errorf("%s has events up to %d and version %d", p.ID, versions[p.ID], p.Version)
		}
	}
}

// lastEvent waits until every event has a number.
func lastEvent(t *testing.T, database string) (last int) {
	t.Helper()
	eventually(t, "the outbox is empty", func() error {
		var left int
		ask(t, database, "SELECT (SELECT count(*) FROM outbox), (SELECT COALESCE(max(id), 0) FROM purchase_event)", &left, &last)
		if left > 0 {
			return errors.New("not yet")
		}
		return nil
	})
	return last
}

// ask queries one value.
func ask(t *testing.T, database, question string, into ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, question).Scan(into...); err != nil {
		t.Fatal(err)
	}
}
