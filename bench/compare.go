package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// measure measures what the options ask for. An error means that something did not work; a
// slow figure is none.
func measure(ctx context.Context, o Options) (report Report, err error) {
	if err := o.Check(); err != nil {
		return Report{}, err
	}
	l, err := openEnv(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	report = Report{
		StartedAt: time.Now().UTC(), Machine: l.machine(),
		Settings: Settings{Rounds: o.Rounds, Seconds: o.Duration.Seconds(), Accounts: o.Accounts},
	}
	for _, f := range o.chosen() {
		l.say("%s", f.name)
		cases, err := l.figure(f)
		if err != nil {
			return report, fmt.Errorf("measure %s: %w", f.name, err)
		}
		report.Figures = append(report.Figures, Figure{Name: f.name, Title: f.title, Cases: cases})
	}
	if o.Profile != "" {
		err = l.profile(o.Profile)
	}
	return report, err
}

func (l *env) machine() Machine {
	return Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Postgres: l.version,
	}
}

// figure measures one figure, and ends what it left running.
func (l *env) figure(f figure) (cases []Case, err error) {
	defer func() { err = errors.Join(err, l.endFigure()) }()
	if _, err := l.admin.Exec(l.ctx, "CHECKPOINT"); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return f.measure(l)
}

// subject is one of those that are measured in turn; the first is the product.
type subject struct {
	name    string
	measure func() (Values, error)
}

// compare measures the subjects in turn, round after round.
func (l *env) compare(name string, columns []string, subjects ...subject) (Case, error) {
	rounds := make([][]Values, len(subjects))
	names := make([]string, len(subjects))
	for round := range l.o.Rounds {
		for i, s := range subjects {
			l.say("  %s: %s, round %d of %d", name, s.name, round+1, l.o.Rounds)
			values, err := s.measure()
			if err != nil {
				return Case{}, fmt.Errorf("%s, %s: %w", name, s.name, err)
			}
			l.say("    %s", values.line(columns))
			rounds[i], names[i] = append(rounds[i], values), s.name
		}
	}
	return summed(name, columns, names, rounds), nil
}

func (v Values) line(columns []string) string {
	var parts []string
	for _, column := range columns {
		if value, ok := v[column]; ok {
			parts = append(parts, column+" "+number(value))
		}
	}
	return strings.Join(parts, "  ")
}
