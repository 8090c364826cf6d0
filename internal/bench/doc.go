// Package bench measures Holdfast as it ships: the real program as a process of its own,
// on a private Postgres with its default durability, against a stub broker over loopback
// HTTP. Every figure stands beside a baseline of the same run: the subjects are measured
// in turn, and what counts is their ratio and the median of the rounds, for an absolute
// number says as much about the machine as about the program.
//
// It knows the product from outside only: its command line, settings, API and tables.
// Only cmd/holdfast imports it.
package bench
