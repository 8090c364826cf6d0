package main

import (
	"fmt"

	"holdfast/internal/audit"
)

type auditCommand struct {
	JSON bool `help:"Print JSON."`
}

func (c *auditCommand) Run(a *app) error {
	settings, err := loadConfig(a.find)
	if err != nil {
		return err
	}
	pool, done, err := openDatabase(a.ctx, settings)
	if err != nil {
		return err
	}
	defer done()
	report, err := audit.Run(a.ctx, pool, audit.Params{
		PendingGrace:   settings.Policy.PendingGrace,
		SweepInterval:  settings.SweepInterval,
		EventRetention: settings.EventRetention,
	})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return c.print(a, report)
}

func (c *auditCommand) print(a *app, report audit.Report) error {
	if err := c.write(a, report); err != nil {
		return err
	}
	if !report.OK {
		return errQuiet
	}
	return nil
}

func (c *auditCommand) write(a *app, report audit.Report) error {
	if c.JSON {
		return printJSON(a.out, report)
	}
	for _, b := range report.Breaches {
		fmt.Fprintf(a.out, "invariant %d broken by %s: %s\n", b.Invariant, plain(b.Subject), plain(b.Detail))
	}
	if report.Truncated {
		fmt.Fprintln(a.out, "and more")
	}
	for _, id := range report.AwaitingSweep {
		fmt.Fprintf(a.out, "%s awaits the sweep\n", id)
	}
	if report.OK {
		fmt.Fprintln(a.out, "every invariant holds")
	}
	return nil
}
