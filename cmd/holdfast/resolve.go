package main

import (
	"context"

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

func (c *resolveCommand) Run(ctx context.Context, a *cli) error {
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
