// Package audit checks the invariants of the external contract, which must hold no matter
// what crashed or when: each uncertain purchase has its job, balances are the sum of what
// changed them, events are complete, and nothing was sent to the broker that should not
// have been.
//
// It reads and never writes: each invariant is one set-based query, and all of them read
// the same snapshot. It knows the tables and no domain package's code; only cmd imports it.
package audit
