package jobs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/broker/httpbroker"
	"holdfast/sandbox"
)

// unanswered is a symbol that the sandbox books and answers with a 500: UNKNOWN for us,
// until a lookup finds it.
const unanswered = "ERR500-BOOKED"

// testBroker is the sandbox, behind the adapter and the wire that any broker is behind.
type testBroker struct {
	*sandbox.Sandbox
	url string

	mu     sync.Mutex
	lookup lookup

	lookups       atomic.Int64
	busy          sync.Map // path -> *atomic.Int64
	overlaps      atomic.Int64
	running, most atomic.Int64
}

// lookup stands before a lookup's answer: it waits, or gives another than the sandbox's,
// which sandbox is. The request's context ends when the caller hangs up.
type lookup func(w http.ResponseWriter, r *http.Request, sandbox http.Handler)

func newTestBroker(t *testing.T) *testBroker {
	t.Helper()
	box, err := sandbox.New(sandbox.Config{})
	must(t, err)
	b := &testBroker{Sandbox: box}
	mux := http.NewServeMux()
	mux.Handle("/", box.Handler())
	mux.HandleFunc("GET /v1/orders/by-client-order-id/{key}", b.serveLookup)
	server := httptest.NewServer(mux)
	b.url = server.URL
	t.Cleanup(func() {
		must(t, box.Close())
		server.Close()
	})
	return b
}

// onLookup sets what stands before every lookup from now on.
func (b *testBroker) onLookup(f lookup) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookup = f
}

func (b *testBroker) serveLookup(w http.ResponseWriter, r *http.Request) {
	b.lookups.Add(1)
	entry, _ := b.busy.LoadOrStore(r.URL.Path, new(atomic.Int64))
	if entry.(*atomic.Int64).Add(1) > 1 {
		b.overlaps.Add(1)
	}
	defer entry.(*atomic.Int64).Add(-1)
	b.note(b.running.Add(1))
	defer b.running.Add(-1)
	b.mu.Lock()
	f := b.lookup
	b.mu.Unlock()
	if f == nil {
		b.Handler().ServeHTTP(w, r)
		return
	}
	f(w, r, b.Handler())
}

func (b *testBroker) note(running int64) {
	for {
		most := b.most.Load()
		if running <= most || b.most.CompareAndSwap(most, running) {
			return
		}
	}
}

// places counts the orders that came, over all purchases.
func (b *testBroker) places() int { return b.Ledger("").Places }

// script makes the sandbox's next calls end as act says.
func (b *testBroker) script(t *testing.T, act sandbox.Response) {
	t.Helper()
	must(t, b.Script(act))
}

// hold makes the first lookup, or every one, wait until release is closed or its caller
// hangs up. began gets one value for each that waits.
func (b *testBroker) hold(every bool) (began chan struct{}, release chan struct{}) {
	began, release = make(chan struct{}, 1000), make(chan struct{})
	var calls atomic.Int64
	b.onLookup(func(w http.ResponseWriter, r *http.Request, sandbox http.Handler) {
		if every || calls.Add(1) == 1 {
			began <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		sandbox.ServeHTTP(w, r)
	})
	return began, release
}

// confirm answers a lookup of an order that the sandbox was never sent.
func confirm(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	key := r.PathValue("key")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"order_id": "order-" + key, "client_order_id": key, "status": "completed"})
}

// adapter returns the http adapter for the broker at url. No order may be replayed: its
// settle time never ends.
func adapter(url string, timeout time.Duration) (*httpbroker.Client, error) {
	return httpbroker.New(httpbroker.Config{
		URL: url, Timeout: timeout, KeyRetention: 24 * time.Hour, Settle: time.Hour, Idempotent: true,
	})
}

// received waits for one value.
func received(t *testing.T, what string, from <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-from:
	case <-ctx.Done():
		t.Fatalf("not in %s: %s", patience, what)
	}
}
