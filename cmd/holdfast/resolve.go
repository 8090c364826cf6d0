package main

import (
	"context"

	"holdfast/client"
)

type resolveCommand struct {
	ID      string `arg:"" help:"The purchase's id."`
	Outcome string `required:"" enum:"completed,rejected" placeholder:"completed|rejected" help:"The outcome."`
	Note    string `required:"" placeholder:"TEXT" help:"The evidence for this decision; stored with the purchase."`
	OrderID string `placeholder:"ID" help:"The broker's order id."`
	Cost    string `placeholder:"AMOUNT" help:"The cost of a completed purchase. Default: the reserved amount."`
	connection
}

func (c *resolveCommand) Run(ctx context.Context, a *cli) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	p, err := api.Resolve(ctx, c.ID, client.Resolution{Outcome: c.Outcome, Note: c.Note, OrderID: c.OrderID, Cost: c.Cost})
	if err != nil {
		return asUsageError(err)
	}
	if c.JSON {
		return printJSON(a.out, p)
	}
	return printPurchase(a.out, p)
}
