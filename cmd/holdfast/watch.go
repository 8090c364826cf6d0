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
	Account  string `placeholder:"ID" help:"Only events of this account."`
	Purchase string `placeholder:"ID" help:"Only events of this purchase."`
	After    string `placeholder:"EVENT-ID" help:"Resume after this event id; 0: from the oldest retained event. Default: from now."`
	connection
}

// Help describes how it ends and resumes.
func (*watchCommand) Help() string {
	return "Runs until interrupted. Reconnects automatically and resumes without loss. With --json: one event per line."
}

func (c *watchCommand) Run(ctx context.Context, a *cli) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := true
	for e, err := range api.Events(ctx, client.EventsParams{
		AccountID: c.Account, PurchaseID: c.Purchase, After: c.After,
		OnResync: func(reason string) {
			say(a.errOut, "events may be missing (%s): see holdfast list\n", plain(reason))
		},
		OnReconnect: func(err error, wait time.Duration) {
			// If the first connection fails, the address is most likely wrong.
			if first && isUnreachable(err) {
				cancel(err)
				return
			}
			first = false
			say(a.errOut, "%s; reconnecting in %s\n", plain(err.Error()), wait.Round(time.Millisecond))
		},
	}) {
		if err != nil {
			return asUsageError(err)
		}
		if err := c.print(a, e); err != nil {
			return err
		}
	}
	if cause := context.Cause(ctx); isUnreachable(cause) {
		return cause
	}
	return nil
}

func isUnreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

func (c *watchCommand) print(a *cli, e client.Event) error {
	if c.JSON {
		return printJSON(a.out, e)
	}
	_, err := fmt.Fprintf(a.out, "%s  %-6s %s  %s  %s -> %s%s\n", e.OccurredAt.Local().Format("15:04:05.000"), e.ID,
		plain(e.AccountID), e.PurchaseID, e.PreviousStatus, e.Status, plain(inParentheses(e.Reason)))
	return err
}
