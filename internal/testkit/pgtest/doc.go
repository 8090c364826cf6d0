// Package pgtest gives every test a real Postgres database of its own.
//
// All test processes of one run share one cluster: the first starts it, and a
// keeper process stops it once the last of them is gone, however it ended. The
// cluster's files stay in the temp folder for the next run. Each database is a
// clone of a template that is migrated once for each state of the migrations, so a
// test pays some tens of milliseconds. Nothing needs to be set up: `go test ./x`
// alone works, as root and as an ordinary user.
//
// Tests only; nothing else may import it.
package pgtest
