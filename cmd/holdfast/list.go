package main

import (
	"context"
	"fmt"

	"holdfast/client"
)

// maxList is the maximum page size of the API.
const maxList = 500

type listCommand struct {
	Account string `placeholder:"ID" help:"Only purchases of this account."`
	Status  string `predictor:"status" placeholder:"STATUS" help:"Only purchases in this status: PENDING, COMPLETED, REJECTED, UNKNOWN or MANUAL_REVIEW."`
	Limit   int    `default:"50" help:"Maximum number, 1 to 500."`
	Cursor  string `placeholder:"CURSOR" help:"Continue with the next page."`
	connection
}

func (c *listCommand) Run(ctx context.Context, a *cli) error {
	if c.Limit < 1 || c.Limit > maxList {
		return &usageError{fmt.Sprintf("--limit must be 1 to %d", maxList)}
	}
	api, err := c.open(a)
	if err != nil {
		return err
	}
	page, err := api.List(ctx, client.ListParams{
		AccountID: c.Account, Status: c.Status, Limit: c.Limit, Cursor: c.Cursor,
	})
	if err != nil {
		return asUsageError(err)
	}
	if c.JSON {
		return printJSON(a.out, page)
	}
	t := newTable(a.out, "ID", "ACCOUNT", "STATUS", "ORDER", "RESERVED", "COST", "REASON", "CREATED")
	for _, p := range page.Data {
		t.row(p.ID, p.AccountID, p.Status, describeOrder(p), p.Reserved, value(p.Cost), value(p.Reason), moment(&p.CreatedAt))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if page.NextCursor != nil {
		say(a.errOut, "more: --cursor %s\n", *page.NextCursor)
	}
	return nil
}
