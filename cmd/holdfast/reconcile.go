package main

import (
	"context"
	"fmt"
	"time"

	"holdfast/client"
)

type reconcileCommand struct {
	ID        string        `arg:"" optional:"" help:"The purchase's id; without it, all purchases that match the flags."`
	Status    string        `enum:",UNKNOWN,MANUAL_REVIEW" default:"" placeholder:"UNKNOWN|MANUAL_REVIEW" help:"All purchases in this status."`
	Account   string        `placeholder:"ID" help:"Only purchases of this account."`
	Reason    string        `placeholder:"REASON" help:"Only purchases with this reason."`
	OlderThan time.Duration `placeholder:"DURATION" help:"Only purchases that have not changed for longer than this."`
	DryRun    bool          `help:"Only count them."`
	connection
}

func (c *reconcileCommand) Run(ctx context.Context, a *cli) error {
	if (c.ID == "") == (c.Status == "") {
		return &usageError{"either a purchase's id or --status is required"}
	}
	if c.ID != "" && (c.Account != "" || c.Reason != "" || c.OlderThan != 0 || c.DryRun) {
		return &usageError{"--account, --reason, --older-than and --dry-run cannot be combined with an id"}
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

func (c *reconcileCommand) many(ctx context.Context, a *cli, api *client.Client) error {
	chosen := client.Reconciliation{Status: c.Status, AccountID: c.Account, Reason: c.Reason, DryRun: c.DryRun}
	if c.OlderThan > 0 {
		chosen.OlderThan = c.OlderThan.String()
	}
	a.progress("reconciling all %s purchases that match the flags; this may take a while", c.Status)
	count, err := api.ReconcileMany(ctx, chosen)
	if err != nil {
		return asUsageError(err)
	}
	if c.JSON {
		return printJSON(a.out, map[string]any{"count": count, "dry_run": c.DryRun})
	}
	_, err = fmt.Fprintln(a.out, describeCount(count, c.DryRun))
	return err
}

func describeCount(count int, dryRun bool) string {
	what, verb := "1 purchase", "is"
	if count != 1 {
		what, verb = fmt.Sprintf("%d purchases", count), "are"
	}
	if dryRun {
		verb = "would be"
	}
	return what + " " + verb + " due"
}
