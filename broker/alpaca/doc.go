// Package alpaca has the adapters for Alpaca's two APIs: the Trading API, whose login is the
// account, and the Broker API, whose login acts for accounts. Orders, statuses, errors and
// limits are the same in both.
//
// Accepted is not bought: Alpaca answers a place with an order that it has merely accepted.
// Such an order is processing until it has ended, and then it counts for what was filled.
// The facts, and the pages they come from, are in docs/alpaca.md.
//
// Only the wiring in internal/app and tests import it.
package alpaca
