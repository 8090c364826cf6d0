// Package app wires the parts of one serving process to each other, starts them in the order
// in which they need each other, and stops them in the reverse order. It also opens the
// database for the commands that work on it directly.
//
// It contains no rule of the domain and reads no setting itself. cmd/holdfast and bench
// import it; it may import every package but these.
package app
