package main

import (
	"context"
	"fmt"
	"time"

	"holdfast/client"
)

type resolveCommand struct {
	ID      string `arg:"" help:"The purchase's id."`
	Outcome string `required:"" enum:"completed,rejected" placeholder:"completed|rejected" help:"What became of it."`
	Note    string `required:"" placeholder:"TEXT" help:"Why you know; it is kept with the purchase."`
	OrderID string `placeholder:"ID" help:"The broker's order."`
	Cost    string `placeholder:"AMOUNT" help:"What a completed one cost; what is reserved by default."`
	connection
}

func (c *resolveCommand) Run(ctx context.Context, a *app) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	p, err := api.Resolve(ctx, c.ID, client.Resolution{Outcome: c.Outcome, Note: c.Note, OrderID: c.OrderID, Cost: c.Cost})
	if err != nil {
		return asked(err)
	}
	if c.JSON {
		return printJSON(a.out, p)
	}
	return printPurchase(a.out, p)
}

type reconcileCommand struct {
	ID        string        `arg:"" optional:"" help:"The purchase's id; without one, all that the flags choose."`
	Status    string        `enum:",UNKNOWN,MANUAL_REVIEW" default:"" placeholder:"UNKNOWN|MANUAL_REVIEW" help:"All in this status."`
	Account   string        `placeholder:"ID" help:"Only this account's."`
	Reason    string        `placeholder:"WORD" help:"Only those with this reason."`
	OlderThan time.Duration `placeholder:"DURATION" help:"Only those whose last change is longer ago than this."`
	DryRun    bool          `help:"Only count them."`
	connection
}

func (c *reconcileCommand) Run(ctx context.Context, a *app) error {
	if (c.ID == "") == (c.Status == "") {
		return &usageError{"give a purchase's id, or --status for many"}
	}
	if c.ID != "" && (c.Account != "" || c.Reason != "" || c.OlderThan != 0 || c.DryRun) {
		return &usageError{"--account, --reason, --older-than and --dry-run choose among many: they do not go with an id"}
	}
	if c.OlderThan < 0 {
		return &usageError{"--older-than must not be negative"}
	}
	api, err := c.open(a)
	if err != nil {
		return err
	}
	if c.ID == "" {
		return c.many(ctx, a, api)
	}
	p, err := api.Reconcile(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, p)
	}
	return printPurchase(a.out, p)
}

func (c *reconcileCommand) many(ctx context.Context, a *app, api *client.Client) error {
	chosen := client.Reconciliation{Status: c.Status, AccountID: c.Account, Reason: c.Reason, DryRun: c.DryRun}
	if c.OlderThan > 0 {
		chosen.OlderThan = c.OlderThan.String()
	}
	a.progress("asking for all %s purchases that the flags choose; many take a while", c.Status)
	count, err := api.ReconcileMany(ctx, chosen)
	if err != nil {
		return asked(err)
	}
	if c.JSON {
		return printJSON(a.out, map[string]any{"count": count, "dry_run": c.DryRun})
	}
	_, err = fmt.Fprintln(a.out, goingBack(count, c.DryRun))
	return err
}

func goingBack(count int, dryRun bool) string {
	what, verb := "1 purchase", "goes"
	if count != 1 {
		what, verb = fmt.Sprintf("%d purchases", count), "go"
	}
	if dryRun {
		verb = "would go"
	}
	return what + " " + verb + " back to the workers"
}

type switchCommand struct {
	Pause  pauseCommand  `cmd:"" help:"Pause intake (new purchases get 503) or passes (workers rest), on every process."`
	Resume resumeCommand `cmd:"" help:"Let intake or passes go on."`
}

// switching is what pausing and resuming share.
type switching struct {
	Name string `arg:"" enum:"intake,passes" help:"intake or passes."`
	connection
}

type pauseCommand struct {
	Note string `required:"" placeholder:"TEXT" help:"Why; the next operator reads it."`
	switching
}

type resumeCommand struct {
	Note string `placeholder:"TEXT" help:"Why; the next operator reads it."`
	switching
}

func (c *pauseCommand) Run(ctx context.Context, a *app) error  { return c.set(ctx, a, true, c.Note) }
func (c *resumeCommand) Run(ctx context.Context, a *app) error { return c.set(ctx, a, false, c.Note) }

func (c switching) set(ctx context.Context, a *app, paused bool, note string) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	if err := api.SetSwitch(ctx, c.Name, paused, note); err != nil {
		return asked(err)
	}
	if c.JSON {
		return printJSON(a.out, map[string]any{"switch": c.Name, "paused": paused})
	}
	state := "on"
	if paused {
		state = "paused"
	}
	_, err = fmt.Fprintf(a.out, "%s is %s; every process follows within seconds\n", c.Name, state)
	return err
}
