// Package localpg runs a private Postgres: a cluster of its own under a data
// folder, reached over a unix socket that only its owner may open. It serves
// `holdfast serve` without settings, the commands that need the same database
// while that server is down, and the tests.
//
// A running server is shared. Whoever needs it joins; the last one to leave stops
// it. Three advisory locks in the data folder say who is there, and they vanish
// with their process however it dies:
//
//	owner  one process serves from this folder ([Start]); a second is refused
//	users  shared by everyone who uses the server
//	start  whoever starts or stops it
//
// A postmaster that outlived its users (kill -9) is found and used by the next one.
// Postgres never runs as root, and a cluster is never made again: what holds data
// of another version, or what this package did not make, is refused untouched.
//
// It is a leaf: it knows nothing of Holdfast's schema and imports no other room.
package localpg
