// Package broker is the port to a stock broker: what we send, what an answer
// proves, and the gate that paces calls while the broker is down.
//
// An adapter turns one exchange on its wire into an [Answer]: evidence, never a
// decision. The purchase package alone decides what evidence does to a purchase.
// Whatever an adapter does not recognize is [Uncertain].
//
// The package is a leaf: it imports nothing of this module but internal/money.
// Adapters (httpbroker, alpaca, sandbox) import it; purchase imports it; nobody
// else needs it but the wiring in cmd.
package broker
