// Command holdfast buys stock through a broker that may answer late, wrongly, twice
// or never, and finds out what happened.
//
// main is policy: signals and exit codes. run parses the command line and hands over
// to one command. Each command is wiring: it reads the settings, opens what they name
// and lets the rooms work. No rule of the domain stands here. This package may import
// every other; none may import it.
package main
