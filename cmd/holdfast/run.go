package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"holdfast/internal/config"

	"github.com/alecthomas/kong"
	"github.com/willabides/kongplete"
	"golang.org/x/term"
)

// The exit codes are part of the external contract.
const (
	exitDone   = 0
	exitFailed = 1
	// exitUsage: the command line or a setting is invalid.
	exitUsage = 2
)

// cli has the inputs and outputs of a command.
type cli struct {
	env    config.Env
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	// interactive is set if the output goes to a terminal.
	interactive bool
}

// process returns the cli of the real program.
func process() cli {
	return cli{
		env: config.Environ(), in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		interactive: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// errQuiet is returned by a command that has already printed everything.
var errQuiet = errors.New("failed")

// usageError is an invalid command line that kong cannot detect.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// exitPanic carries the exit code out of kong, which would end the program itself after --help.
type exitPanic int

// run runs the command in args and returns the exit code.
func run(ctx context.Context, a cli, args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			exit, ok := p.(exitPanic)
			if !ok {
				panic(p)
			}
			code = int(exit)
		}
	}()
	parser := newParser(a)
	kongplete.Complete(parser, predictors()...)
	command, err := parser.Parse(args)
	if err != nil {
		say(a.errOut, "holdfast: %s (see --help)\n", oneLine(err))
		return exitUsage
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return a.exitCode(command.Run(&a))
}

func newParser(a cli) *kong.Kong {
	return kong.Must(&commands{},
		kong.Name("holdfast"),
		kong.Description("Buys stock through a broker that may answer late, wrongly, twice or never, and reconciles the purchases whose outcome is unknown."),
		kong.Writers(a.out, a.errOut),
		kong.Exit(func(code int) { panic(exitPanic(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Vars{"version": version(), "default_url": config.DefaultURL()},
	)
}

func (a *cli) exitCode(err error) int {
	var usage *usageError
	var settings *config.Error
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errQuiet):
		return exitFailed
	case errors.As(err, &usage), errors.As(err, &settings):
		say(a.errOut, "holdfast: %s\n", oneLine(err))
		return exitUsage
	default:
		say(a.errOut, "holdfast: %s\n", oneLine(err))
		return exitFailed
	}
}

// oneLine puts an error on one line, because programs read the first line of stderr. Duplicate
// lines are left out: a connection to the database is tried with TLS and without.
func oneLine(err error) string {
	var words []string
	seen := map[string]bool{}
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !seen[line] {
			words = append(words, strings.Fields(line)...)
		}
		seen[line] = true
	}
	return strings.Join(words, " ")
}
