package purchase_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"

	"holdfast/purchase"
)

// fakeBroker keeps its promises: it books a key once, whatever it answers. What it
// answers is the test's to say, call by call.
type fakeBroker struct {
	*httptest.Server
	mu sync.Mutex
	// orders are what it has booked, by key.
	orders map[string]map[string]any
	// bodies are the place requests it has read, by key.
	bodies map[string][]string
	// lookups counts lookups by key.
	lookups map[string]int
	// place and lookup say how to answer; nil answers truthfully.
	place  func(order map[string]any) reply
	lookup func(key string) reply
	// before is called with each order before it is booked; it may block.
	before func(order map[string]any)
}

// reply is one answer: whether the order is booked first, and what is said then.
type reply struct {
	book   bool
	status int
	body   any
	header map[string]string
	// drop closes the connection instead of answering.
	drop bool
}

func newFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	b := &fakeBroker{orders: map[string]map[string]any{}, bodies: map[string][]string{}, lookups: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders", b.servePlace)
	mux.HandleFunc("GET /v1/orders/by-client-order-id/{key}", b.serveLookup)
	b.Server = httptest.NewServer(mux)
	t.Cleanup(b.Close)
	return b
}

func (b *fakeBroker) servePlace(w http.ResponseWriter, r *http.Request) {
	var order map[string]any
	var raw json.RawMessage
	if json.NewDecoder(r.Body).Decode(&raw) != nil || json.Unmarshal(raw, &order) != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	before := b.before
	b.mu.Unlock()
	if before != nil {
		before(order)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := order["client_order_id"].(string)
	b.bodies[key] = append(b.bodies[key], string(raw))
	answer := reply{book: true, status: http.StatusCreated}
	if b.place != nil {
		answer = b.place(order)
	}
	if answer.book && b.orders[key] == nil {
		b.orders[key] = booked(order, len(b.orders)+1)
	}
	b.write(w, key, answer)
}

func booked(order map[string]any, n int) map[string]any {
	return map[string]any{
		"order_id": fmt.Sprintf("8389765929445198%03d", n), "client_order_id": order["client_order_id"],
		"status": "completed", "symbol": order["symbol"], "quantity": order["quantity"],
	}
}

func (b *fakeBroker) serveLookup(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := path.Base(r.URL.Path)
	b.lookups[key]++
	answer := reply{status: http.StatusOK}
	if b.orders[key] == nil {
		answer.status = http.StatusNotFound
	}
	if b.lookup != nil {
		answer = b.lookup(key)
	}
	b.write(w, key, answer)
}

func (b *fakeBroker) write(w http.ResponseWriter, key string, answer reply) {
	if answer.drop {
		panic(http.ErrAbortHandler)
	}
	for name, value := range answer.header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.status)
	body := answer.body
	switch {
	case body != nil:
	case answer.status == http.StatusNotFound:
		body = map[string]any{"code": "order_not_found", "client_order_id": key}
	case b.orders[key] != nil:
		body = b.orders[key]
	}
	_ = json.NewEncoder(w).Encode(body)
}

// script changes how the broker answers from now on.
func (b *fakeBroker) script(place func(order map[string]any) reply, lookup func(key string) reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.place, b.lookup = place, lookup
}

// beforeEach makes the broker call before with each order before it books it.
func (b *fakeBroker) beforeEach(before func(order map[string]any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = before
}

// placed returns the place requests that came under a purchase's key.
func (b *fakeBroker) placed(p purchase.Purchase) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bodies[p.BrokerKey]
}

// bought counts the orders it has booked.
func (b *fakeBroker) bought() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.orders)
}

// always answers every call alike.
func always(answer reply) func(map[string]any) reply {
	return func(map[string]any) reply { return answer }
}

// alwaysFor answers every lookup alike.
func alwaysFor(answer reply) func(string) reply {
	return func(string) reply { return answer }
}

// lookedUp counts the lookups of a purchase.
func (b *fakeBroker) lookedUp(p purchase.Purchase) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookups[p.BrokerKey]
}
