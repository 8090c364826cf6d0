package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"holdfast/internal/app"
	"holdfast/internal/audit"
	"holdfast/internal/config"
	"holdfast/jobs"
)

type auditCommand struct {
	JSON bool `help:"Print JSON."`
}

func (c *auditCommand) Run(ctx context.Context, a *cli) error {
	settings, err := config.Load(a.env)
	if err != nil {
		return err
	}
	pool, done, err := app.OpenDatabase(ctx, settings)
	if err != nil {
		return err
	}
	defer done()
	report, err := audit.Run(ctx, pool, auditParams(settings))
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	where, err := app.DatabaseName(ctx, settings, pool)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return c.print(a, report, where)
}

func auditParams(c config.Config) audit.Params {
	p := audit.Params{
		PendingGrace:   c.PendingGrace,
		SweepInterval:  c.SweepInterval,
		EventRetention: c.EventRetention,
		Queues:         []string{jobs.PassQueue},
	}
	for _, b := range c.Brokers {
		p.Brokers = append(p.Brokers, audit.Broker{
			Name: b.Name, Timeout: b.Timeout, KeyRetention: b.KeyRetention, MaxAge: b.RetryMaxAge,
			LongestWait: longestWait(c, b),
		})
	}
	return p
}

// longestWait returns the maximum time until a purchase's next check: the backoff, a broker's
// Retry-After, the lease of a pass, the breaker.
func longestWait(c config.Config, b config.Broker) time.Duration {
	backoff := time.Duration(float64(b.RetryCap) * (1 + b.RetryJitter))
	return max(backoff, b.RetryAfterMax, c.RescueAfter, b.Settle, b.ProcessingInterval, b.BreakerOpen) + time.Second
}

func (c *auditCommand) print(a *cli, report audit.Report, where string) error {
	if err := c.write(a, report, where); err != nil {
		return err
	}
	if !report.OK {
		return errQuiet
	}
	return nil
}

func (c *auditCommand) write(a *cli, report audit.Report, where string) error {
	if c.JSON {
		return printJSON(a.out, report)
	}
	var text strings.Builder
	for _, b := range report.Breaches {
		fmt.Fprintf(&text, "invariant %d is violated by %s: %s\n", b.Invariant, plain(b.Subject), plain(b.Detail))
	}
	if report.Truncated {
		text.WriteString("and more\n")
	}
	for _, id := range report.AwaitingSweep {
		fmt.Fprintf(&text, "%s is waiting for the sweep\n", id)
	}
	for _, warning := range report.Warnings {
		fmt.Fprintf(&text, "warning: %s\n", plain(warning))
	}
	if report.OK {
		fmt.Fprintf(&text, "every invariant holds in %s\n", plain(where))
	}
	_, err := io.WriteString(a.out, text.String())
	return err
}
