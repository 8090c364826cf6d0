// Package httpbroker is the adapter for brokers that speak Holdfast's own wire
// (docs/evidence.md has the table of what each answer is taken to prove):
//
//	POST {URL}/v1/orders                               places, with an Idempotency-Key
//	GET  {URL}/v1/orders/by-client-order-id/{KEY}      looks up
//
// It gives evidence and decides nothing. Only the wiring in cmd and tests import it.
package httpbroker
