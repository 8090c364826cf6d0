package main

import (
	"context"
	"fmt"

	"holdfast/client"
)

type findingsCommand struct {
	List  listFindingsCommand `cmd:"" default:"withargs" help:"List findings, newest first."`
	Close closeFindingCommand `cmd:"" help:"Close a finding; the same discrepancy is not reported again."`
}

type listFindingsCommand struct {
	Status string `enum:",open,closed" default:"" placeholder:"open|closed" help:"Only open or only closed findings."`
	Kind   string `placeholder:"KIND" help:"Only this kind: unknown_order, second_order, rejected_but_ordered, completed_but_missing, quantity_differs or cost_differs."`
	Limit  int    `default:"50" help:"Maximum number, 1 to 500."`
	Cursor string `placeholder:"CURSOR" help:"Continue with the next page."`
	connection
}

func (c *listFindingsCommand) Run(ctx context.Context, a *cli) error {
	if c.Limit < 1 || c.Limit > maxList {
		return &usageError{fmt.Sprintf("--limit must be 1 to %d", maxList)}
	}
	api, err := c.open(a)
	if err != nil {
		return err
	}
	page, err := api.Findings(ctx, client.FindingListParams{Status: c.Status, Kind: c.Kind, Limit: c.Limit, Cursor: c.Cursor})
	if err != nil {
		return asUsageError(err)
	}
	if c.JSON {
		return printJSON(a.out, page)
	}
	if err := printFindings(a.out, page.Data); err != nil {
		return err
	}
	if page.NextCursor != nil {
		say(a.errOut, "more: --cursor %s\n", *page.NextCursor)
	}
	return nil
}

type closeFindingCommand struct {
	ID   string `arg:"" help:"The finding's id."`
	Note string `required:"" placeholder:"TEXT" help:"The cause and what was done; stored with the finding."`
	connection
}

func (c *closeFindingCommand) Run(ctx context.Context, a *cli) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	closed, err := api.CloseFinding(ctx, c.ID, c.Note)
	if err != nil {
		return asUsageError(err)
	}
	if c.JSON {
		return printJSON(a.out, closed)
	}
	_, err = fmt.Fprintf(a.out, "finding %s (%s) is closed\n", closed.ID, closed.Kind)
	return err
}
