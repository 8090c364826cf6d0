package brokertest

import (
	"sync"
	"testing"

	"holdfast/broker"
)

// Book is a broker with a memory: it keeps orders by key and answers in an adapter's
// dialect. Its zero faults make it an honest, idempotent broker.
type Book struct {
	dialect Dialect

	mu     sync.Mutex
	faults Faults
	orders map[string]int // how many lookups have not seen the order yet
	stored map[string]bool
	booked int
}

// Faults are the ways in which a broker can fail reconciliation.
type Faults struct {
	// Lag is how many lookups of a new order answer 404 before one finds it.
	Lag int
	// NoLookup: there is no lookup; a gateway answers it with a 404 of its own.
	NoLookup bool
	// Forget: orders are booked and nothing is remembered; a second place buys again.
	Forget bool
	// StoreErrors: the first place under a key fails with a 500 and books the order,
	// and every further place gets the same 500 from the broker's store.
	StoreErrors bool
	// ValidateFirst: a place of a known key is refused before the key is looked at.
	ValidateFirst bool
	// SayDuplicate: a place of a known key is refused as a duplicate.
	SayDuplicate bool
	// Drop: a place is booked and its connection closed without an answer.
	Drop bool
}

// NewBook makes an honest broker; put its Act on a server.
func NewBook(d Dialect) *Book {
	return &Book{dialect: d, orders: make(map[string]int), stored: make(map[string]bool)}
}

// Be sets the faults from now on.
func (b *Book) Be(faults Faults) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = faults
}

// Booked is how many orders were bought, all keys together.
func (b *Book) Booked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.booked
}

// Act answers one request from the book.
func (b *Book) Act() Act {
	return func(e *Exchange) { b.answer(e.Request)(e) }
}

func (b *Book) answer(request Request) Act {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, place := b.dialect.Read(request)
	if place {
		return b.place(key)
	}
	return b.lookup(key)
}

func (b *Book) place(key string) Act {
	_, known := b.orders[key]
	switch {
	case known && b.faults.ValidateFirst:
		return Answer(422, b.dialect.Refusal)
	case known && b.faults.SayDuplicate:
		return Answer(b.dialect.DuplicateStatus, b.dialect.Duplicate)
	case b.stored[key]:
		return Answer(500, "")
	}
	if !known {
		b.book(key)
	}
	switch {
	case b.faults.StoreErrors:
		b.stored[key] = true
		return Answer(500, "")
	case b.faults.Drop:
		return Close()
	}
	return Answer(200, b.dialect.Completed(key, b.dialect.Order))
}

func (b *Book) book(key string) {
	b.booked++
	if !b.faults.Forget {
		b.orders[key] = b.faults.Lag
	}
}

func (b *Book) lookup(key string) Act {
	if b.faults.NoLookup {
		return Answer(404, "<html>no such route</html>")
	}
	lag, known := b.orders[key]
	if !known || lag > 0 {
		if known {
			b.orders[key] = lag - 1
		}
		return Answer(404, b.dialect.NotFound(key))
	}
	return Answer(200, b.dialect.Completed(key, b.dialect.Order))
}

// exerciseMemory: what each fault looks like through the adapter. None may look like
// proof of anything but what it is.
func exerciseMemory(t *testing.T, d Dialect) {
	for _, c := range []struct {
		name   string
		faults Faults
		want   []broker.Verdict // of the first call, a lookup, a replay, a lookup, and so on
	}{
		{"Honest", Faults{}, []broker.Verdict{broker.Accepted, broker.Accepted, broker.Accepted, broker.Accepted}},
		{"Lags", Faults{Drop: true, Lag: 1}, []broker.Verdict{broker.Uncertain, broker.Absent, broker.Uncertain, broker.Accepted}},
		{"LagsTwice", Faults{Drop: true, Lag: 2}, []broker.Verdict{broker.Uncertain, broker.Absent, broker.Uncertain, broker.Absent, broker.Uncertain, broker.Accepted}},
		{"NoLookup", Faults{Drop: true, NoLookup: true}, []broker.Verdict{broker.Uncertain, broker.Uncertain, broker.Uncertain, broker.Uncertain}},
		{"Forgets", Faults{Drop: true, Forget: true}, []broker.Verdict{broker.Uncertain, broker.Absent, broker.Uncertain, broker.Absent}},
		{"StoresErrors", Faults{StoreErrors: true}, []broker.Verdict{broker.Uncertain, broker.Accepted, broker.Uncertain, broker.Accepted}},
		{"ValidatesFirst", Faults{ValidateFirst: true}, []broker.Verdict{broker.Accepted, broker.Accepted, broker.Rejected, broker.Accepted}},
		{"SaysDuplicate", Faults{SayDuplicate: true}, []broker.Verdict{broker.Accepted, broker.Accepted, broker.Uncertain, broker.Accepted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			book := NewBook(d)
			book.Be(c.faults)
			b := d.setup(t, patient)
			b.server.Standing(book.Act())
			for i, want := range c.want {
				answer := b.place
				if i%2 == 1 {
					answer = func(t testing.TB, _ string) broker.Answer { return b.lookup(t) }
				}
				if got := answer(t, theKey); got.Verdict != want {
					t.Errorf("call %d proves %s %s, want %s", i+1, got.Verdict, got.Reason, want)
				}
			}
		})
	}
}
