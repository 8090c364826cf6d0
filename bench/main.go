package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"holdfast/internal/app"
)

const exitUsage = 2

type command struct {
	JSON    bool     `help:"Print JSON."`
	Quick   bool     `help:"A smoke run of seconds: everything is measured, and the numbers mean nothing."`
	Figure  []string `placeholder:"NAME" help:"Measure only this figure; may be given more than once."`
	Rounds  int      `placeholder:"N" help:"How often each subject is measured, in turn; at least 3 (3)."`
	Seconds float64  `placeholder:"S" help:"Length of one measurement under load (5)."`
	History int      `placeholder:"N" help:"Purchases of the long history (5000000)."`
	Due     int      `placeholder:"N" help:"UNKNOWN purchases that become due at once (20000)."`
	Streams int      `placeholder:"N" help:"Concurrent subscribers (10000)."`
	Profile string   `placeholder:"DIR" help:"Write CPU and allocation profiles of the server under load to this directory."`
	Program string   `placeholder:"FILE" help:"The holdfast binary to measure; by default the one next to this program."`

	// Part makes this process a baseline of another bench.
	Part string `hidden:""`
}

// Help describes the figures.
func (*command) Help() string {
	return `Measures the holdfast binary, with everything enabled, on a private Postgres with its default durability and against a stub broker, each figure next to its baseline of the same run. A full run takes about half an hour and some 10 GB in the temp directory; progress is printed to stderr. Ratios mean more than absolute numbers; see docs/capacity.md.

Figures: ` + strings.Join(figureNames(), ", ")
}

func main() {
	ctx, stop := app.StopOnSignal(context.Background())
	// The reader of stdout may be gone: whatever the bench has started must end all the same.
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGPIPE)
	var c command
	kong.Parse(&c, kong.Name("bench"), kong.Description("Measures Holdfast next to a baseline on this machine."))
	err := c.run(ctx)
	cancel()
	stop()
	os.Exit(exitCode(err))
}

// usageError is an invalid command line.
type usageError struct{ error }

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		return exitUsage
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
}

// run measures, and prints the report at the end.
func (c *command) run(ctx context.Context) error {
	if c.Part != "" {
		return c.runPart(ctx)
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	report, err := measure(ctx, options)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	return report.Print(os.Stdout)
}

// minRounds is the minimum for a median.
const minRounds = 3

func (c *command) options() (Options, error) {
	o := Full()
	if c.Quick {
		o = Quick()
	}
	self, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find own path: %w", err)
	}
	o.Self, o.Program = self, cmp.Or(c.Program, filepath.Join(filepath.Dir(self), "holdfast"))
	o.Environ, o.Progress = plainEnvironment(os.Environ()), os.Stderr
	o.Figures, o.Profile = c.Figure, c.Profile
	for _, number := range []struct {
		from int
		to   *int
	}{{c.Rounds, &o.Rounds}, {c.History, &o.History}, {c.Due, &o.Due}, {c.Streams, &o.Streams}} {
		if number.from != 0 {
			*number.to = number.from
		}
	}
	if c.Seconds != 0 {
		o.Duration = time.Duration(c.Seconds * float64(time.Second))
	}
	if o.Rounds < minRounds && !c.Quick {
		return o, usageError{fmt.Errorf("--rounds must be at least %d", minRounds)}
	}
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// plainEnvironment keeps our settings and database variables out of the children.
func plainEnvironment(environ []string) []string {
	var plain []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "HOLDFAST_") && !strings.HasPrefix(name, "OTEL_") && !strings.HasPrefix(name, "PG") && name != "DATABASE_URL" {
			plain = append(plain, pair)
		}
	}
	return plain
}
