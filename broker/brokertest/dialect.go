package brokertest

import (
	"testing"
	"time"

	"holdfast/broker"
)

// Dialect describes one adapter and the wire it speaks, enough for a server to answer
// it: every func renders the body of an answer about one order.
type Dialect struct {
	// New makes the adapter for the server at url, with timeout as the deadline of one
	// exchange.
	New func(t testing.TB, url string, timeout time.Duration) broker.Broker
	// Order is any order that the adapter can encode, with a quantity and a limit.
	Order broker.Order

	// Completed says that order was bought under key, whole.
	Completed func(key string, order broker.Order) string
	// Rejected says that the broker had the order and refused it.
	Rejected func(key string, order broker.Order) string
	// Processing says that the broker has the order and has not finished.
	Processing func(key string, order broker.Order) string
	// Strange has a status that the adapter cannot know.
	Strange func(key string, order broker.Order) string
	// Terse are further forms of Completed: everything that may be left out is absent,
	// null, "" or zero, as far as this broker may send it so.
	Terse []func(key string, order broker.Order) string
	// NotFound is this broker's own answer (404) to a lookup of an unknown key.
	NotFound func(key string) string

	// Page is the last page of a list with orders, each one of the bodies above and created
	// at the given time. It is used if the adapter is a [broker.Lister].
	Page func(created time.Time, orders ...string) string

	// Refusal is the body of a 4xx that refuses an order, RefusalCode what the adapter
	// makes of its code.
	Refusal, RefusalCode string
	// DuplicateStatus and Duplicate are how this broker says that a key was used before.
	DuplicateStatus int
	Duplicate       string

	// Read returns the key of a request and whether it is a place.
	Read func(Request) (key string, place bool)
}

// bundle is one adapter in front of one scripted server.
type bundle struct {
	Dialect
	server *Server
	broker broker.Broker
}

// quick is the timeout where one is waited for, slow where something has to arrive
// first, patient where none is waited for.
const (
	quick   = 300 * time.Millisecond
	slow    = 1500 * time.Millisecond
	patient = 20 * time.Second
)

func (d Dialect) setup(t testing.TB, timeout time.Duration) bundle {
	t.Helper()
	server := NewServer(t)
	return bundle{d, server, d.New(t, server.URL(), timeout)}
}

const theKey = "hf-brokertest-key"

func (b bundle) place(t testing.TB, key string) broker.Answer {
	t.Helper()
	return b.broker.Place(t.Context(), b.request(t, key))
}

func (b bundle) lookup(t testing.TB) broker.Answer {
	t.Helper()
	return b.broker.Lookup(t.Context(), broker.Query{Key: theKey, Account: b.Order.Account})
}
