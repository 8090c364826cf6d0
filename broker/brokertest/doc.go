// Package brokertest is a conformance suite for broker adapters.
//
// [Server] is a broker made of raw TCP that follows a script: it can close, reset,
// stall, cut, drip, redirect, answer twice or with garbage, and it counts every request. [Book] is a
// broker with a memory that keeps orders by key and misbehaves in the ways that matter
// to reconciliation: it lags, forgets, replays stored errors, validates before it
// deduplicates. [Exercise] runs every rule of what an answer may be taken to prove
// against one adapter over a real wire.
//
// Whoever writes an adapter describes its wire once, as a [Dialect], and calls
// [Exercise] from a test. The package is for tests; no product code imports it.
package brokertest
