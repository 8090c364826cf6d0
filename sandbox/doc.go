// Package sandbox is a broker to try Holdfast against: a real HTTP server that speaks
// the http adapter's wire, keeps orders by key, and misbehaves on demand, by magic
// symbols ([Symbols], docs/sandbox.md) and by a control API that scripts the next
// answers or takes the whole broker down.
//
// No money, no market. The wiring in cmd and tests import it; it imports nothing of
// this module but internal/money.
package sandbox
