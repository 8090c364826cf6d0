package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"holdfast/client"
)

type watchCommand struct {
	Account  string `placeholder:"ID" help:"Only this account's."`
	Purchase string `placeholder:"ID" help:"Only this purchase's."`
	After    string `placeholder:"EVENT-ID" help:"From this event on; 0 for all that are kept. From now by default."`
	connection
}

// Help says how it ends.
func (*watchCommand) Help() string {
	return "Goes on until it is interrupted; comes back by itself and resumes where it was. With --json: one event a line."
}

func (c *watchCommand) Run(ctx context.Context, a *cli) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	first := true
	for e, err := range api.Events(ctx, client.EventsParams{
		AccountID: c.Account, PurchaseID: c.Purchase, After: c.After,
		OnResync: func(reason string) {
			say(a.errOut, "events may be missing (%s): see holdfast list\n", plain(reason))
		},
		OnReconnect: func(err error, wait time.Duration) {
			// A server that was never there is most likely a wrong address.
			if first && nobodyThere(err) {
				giveUp(err)
				return
			}
			first = false
			say(a.errOut, "%s; again in %s\n", plain(err.Error()), wait.Round(time.Millisecond))
		},
	}) {
		if err != nil {
			return asked(err)
		}
		if err := c.print(a, e); err != nil {
			return err
		}
	}
	if cause := context.Cause(ctx); nobodyThere(cause) {
		return cause
	}
	return nil
}

func nobodyThere(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

func (c *watchCommand) print(a *cli, e client.Event) error {
	if c.JSON {
		return printJSON(a.out, e)
	}
	_, err := fmt.Fprintf(a.out, "%s  %-6s %s  %s  %s -> %s%s\n", e.OccurredAt.Local().Format("15:04:05.000"), e.ID,
		plain(e.AccountID), e.PurchaseID, e.PreviousStatus, e.Status, plain(because(e.Reason)))
	return err
}
