package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"holdfast/internal/bench"
)

type benchCommand struct {
	JSON    bool     `help:"Print JSON."`
	Quick   bool     `help:"A smoke run of seconds: everything is measured, nothing means anything."`
	Figure  []string `placeholder:"NAME" help:"Measure only this figure; may be given more than once."`
	Rounds  int      `placeholder:"N" help:"How often each subject is measured, in turn; at least 3 (3)."`
	Seconds float64  `placeholder:"S" help:"Length of one measurement under load (5)."`
	History int      `placeholder:"N" help:"Purchases of the long history (5000000)."`
	Due     int      `placeholder:"N" help:"UNKNOWN purchases that fall due at once (20000)."`
	Streams int      `placeholder:"N" help:"Subscribers at once (10000)."`
	Profile string   `placeholder:"DIR" help:"Write CPU and allocation profiles of the server under load there."`

	// Part makes this process a baseline of another bench.
	Part string `hidden:""`
}

// Help says what the figures mean.
func (*benchCommand) Help() string {
	return `Measures this program, with everything on, on a private Postgres with its default durability and against a stub broker, each figure beside its baseline of the same run. All of it takes about half an hour and some 10 GB of the temp folder; progress is told on stderr. Ratios mean more than absolute numbers; see docs/capacity.md.

Figures: ` + strings.Join(bench.Names(), ", ")
}

// Run measures, and prints when all is measured.
func (c *benchCommand) Run(ctx context.Context, a *app) error {
	if c.Part != "" {
		return c.runPart(ctx, a)
	}
	options, err := c.options(a)
	if err != nil {
		return err
	}
	// Whoever reads may go away: what the bench has started must end all the same.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGPIPE, syscall.SIGHUP)
	defer stop()
	report, err := bench.Run(ctx, options)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if c.JSON {
		return printJSON(a.out, report)
	}
	return report.Print(a.out)
}

// minRounds is the least that a median can be taken of.
const minRounds = 3

func (c *benchCommand) options(a *app) (bench.Options, error) {
	o := bench.Full()
	if c.Quick {
		o = bench.Quick()
	}
	program, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find own path: %w", err)
	}
	o.Program, o.Environ, o.Progress = program, plainEnvironment(a.environ), a.errOut
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
		return o, &usageError{fmt.Sprintf("--rounds must be at least %d", minRounds)}
	}
	if err := o.Check(); err != nil {
		return o, &usageError{err.Error()}
	}
	return o, nil
}

// plainEnvironment keeps our settings, and the database of somebody, out of the children.
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
