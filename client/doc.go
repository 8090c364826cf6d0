// Package client speaks to Holdfast's HTTP API from Go: purchases, their history and
// events for a client's key, and what operators do for an operator's.
//
// A call is one request. It is never repeated behind the caller's back: who repeats
// [Client.Buy] with the same idempotency key gets the answer as it is then. Only
// [Client.Events] comes back by itself, resumes where it was, and hands out each event
// once.
//
// Money and quantities are decimal strings, exactly as on the wire.
//
// It stands on its own: it imports no other package of Holdfast, and anyone may import
// it.
package client
