// Command holdfast buys stock through a broker that may answer late, wrongly, twice or never,
// and reconciles the purchases whose outcome is unknown. main handles signals and exit codes.
// run parses the command line and runs one command. Each command is wiring: it reads the
// settings, opens what they name and calls other packages. It has no domain rules. This package
// may import every other package; none may import it.
package main
