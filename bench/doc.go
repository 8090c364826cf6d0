// Command bench measures Holdfast as it ships: the real program as a process of its own, on
// a private Postgres with its default durability, against a stub broker over loopback HTTP.
// Every figure is printed next to a baseline of the same run: the subjects are measured in
// turn, and what counts is their ratio and the median of the rounds, because an absolute
// number says as much about the machine as about the program.
//
// It knows the product from outside: its command line, settings, API and tables. The one
// exception is the measurement without events, for which it runs internal/app itself.
package main
