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

// The exit codes are part of the outside contract.
const (
	exitDone   = 0
	exitFailed = 1
	// exitUsage: the command line or a setting is wrong.
	exitUsage = 2
)

// cli is what a command reads from and writes to.
type cli struct {
	env    config.Env
	in     io.Reader
	out    io.Writer
	errOut io.Writer
	// interactive is set if a terminal shows what is printed.
	interactive bool
}

// process returns the cli of the real program.
func process() cli {
	return cli{
		env: config.Environ(), in: os.Stdin, out: os.Stdout, errOut: os.Stderr,
		interactive: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// errQuiet fails a command that has said everything already.
var errQuiet = errors.New("failed")

// usageError is a fault of the command line that kong cannot see.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// exitPanic carries the exit code out of kong, which wants to end the program itself
// after --help.
type exitPanic int

// run does what args ask for and returns the exit code.
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
		kong.Description("Buys stock through a broker that may answer late, wrongly, twice or never, and finds out what happened."),
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

// oneLine is for people and for programs that read the first line of stderr. A line that
// repeats another is left out: a database is tried with TLS and without.
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
