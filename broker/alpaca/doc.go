// Package alpaca is the adapter for Alpaca's Trading API, paper and live.
//
// Its one principle: taken is not bought. Alpaca answers a place with an order that is
// merely accepted; such an order is processing until it has ended, and then it counts
// for what was filled. The facts, and the pages they come from, are in docs/alpaca.md.
//
// Only the wiring in cmd and tests import it.
package alpaca
