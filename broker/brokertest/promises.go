package brokertest

import (
	"fmt"
	"sync"
	"testing"

	"holdfast/broker"
)

// Promises checks the other side: that a broker, seen through its adapter, keeps what
// the adapter's capabilities promise. It buys a dozen orders, so it is for a broker's
// sandbox. newKey must give keys that this broker has never seen.
func Promises(t *testing.T, b broker.Broker, order broker.Order, newKey func() string) {
	t.Helper()
	t.Run("UnknownKeyIsAbsent", func(t *testing.T) {
		if answer := b.Lookup(t.Context(), broker.Query{Key: newKey(), Account: order.Account}); answer.Verdict != broker.Absent {
			t.Errorf("lookup of an unknown key: %s %s", answer.Verdict, answer.Reason)
		}
	})
	t.Run("PlacedIsFound", func(t *testing.T) {
		key := newKey()
		placed := send(t, b, key, order)
		found := b.Lookup(t.Context(), broker.Query{Key: key, Account: order.Account})
		if placed.OrderID == "" || found.OrderID != placed.OrderID || found.Echo.Contradicts(order) {
			t.Errorf("placed as %q, found as %q: %s %s", placed.OrderID, found.OrderID, found.Verdict, found.Reason)
		}
	})
	if b.Capabilities().Idempotent {
		t.Run("KeyBuysOnce", func(t *testing.T) { keyBuysOnce(t, b, order, newKey()) })
		t.Run("RacingPlacesBuyOnce", func(t *testing.T) { racingPlaces(t, b, order, newKey()) })
	}
	t.Run("KeysAreKeptApart", func(t *testing.T) { keysApart(t, b, order, newKey) })
}

func send(t testing.TB, b broker.Broker, key string, order broker.Order) broker.Answer {
	t.Helper()
	body, err := b.Encode(key, order)
	if err != nil {
		t.Fatalf("encode the order: %v", err)
	}
	return b.Place(t.Context(), broker.Request{Key: key, Account: order.Account, Body: body})
}

func keyBuysOnce(t *testing.T, b broker.Broker, order broker.Order, key string) {
	first, again := send(t, b, key, order), send(t, b, key, order)
	if first.OrderID == "" {
		t.Fatalf("the first place has no order id: %s %s", first.Verdict, first.Reason)
	}
	if again.OrderID != first.OrderID && !again.Duplicate {
		t.Errorf("a second place under the key is order %q, not %q, and is not called a duplicate: %s %s", again.OrderID, first.OrderID, again.Verdict, again.Reason)
	}
}

// racingPlaces: places that overlap must end as one order, which a lookup names.
func racingPlaces(t *testing.T, b broker.Broker, order broker.Order, key string) {
	var answers [4]broker.Answer
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = send(t, b, key, order) })
	}
	group.Wait()
	found := b.Lookup(t.Context(), broker.Query{Key: key, Account: order.Account})
	for _, answer := range answers {
		if answer.OrderID != "" && answer.OrderID != found.OrderID {
			t.Errorf("a place was answered with order %q, the lookup names %q", answer.OrderID, found.OrderID)
		}
		if answer.Verdict == broker.Rejected {
			t.Errorf("a racing place was rejected: %q", answer.Code)
		}
	}
}

// keysApart: calls that overlap on shared connections must not get each other's answers.
func keysApart(t *testing.T, b broker.Broker, order broker.Order, newKey func() string) {
	keys := make([]string, 6)
	for i := range keys {
		keys[i] = newKey()
	}
	ids := make([]string, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() {
			placed := send(t, b, key, order)
			found := b.Lookup(t.Context(), broker.Query{Key: key, Account: order.Account})
			if ids[i] = found.OrderID; ids[i] == "" || placed.OrderID != found.OrderID {
				t.Errorf("%s: placed as %q, found as %q", key, placed.OrderID, found.OrderID)
			}
		})
	}
	group.Wait()
	owner := make(map[string]string)
	for i, id := range ids {
		if other, taken := owner[id]; taken {
			t.Errorf("order %q belongs to %s and to %s", id, other, keys[i])
		}
		owner[id] = keys[i]
	}
}

// promisesOfBook runs Promises against an honest book.
func promisesOfBook(t *testing.T, d Dialect) {
	book := NewBook(d)
	b := d.setup(t, patient)
	b.server.Standing(book.Act())
	var n int
	Promises(t, b.broker, d.Order, func() string {
		n++
		return fmt.Sprintf("%s-%d", theKey, n)
	})
}
