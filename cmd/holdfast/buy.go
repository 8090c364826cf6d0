package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"holdfast/client"
)

type buyCommand struct {
	Account        string        `required:"" placeholder:"ID" help:"Who buys."`
	Symbol         string        `required:"" placeholder:"SYMBOL" help:"What, such as AAPL."`
	Quantity       string        `placeholder:"NUMBER" help:"How many, with --limit-price."`
	LimitPrice     string        `placeholder:"PRICE" help:"The most to pay for each."`
	Notional       string        `placeholder:"AMOUNT" help:"Or: buy for this much."`
	Currency       string        `placeholder:"CODE" help:"The account's by default."`
	Metadata       string        `placeholder:"JSON" help:"A JSON object to keep with the purchase."`
	ValidUntil     *time.Time    `placeholder:"TIME" help:"After this time (RFC 3339) nothing more is sent for the purchase."`
	IdempotencyKey string        `placeholder:"KEY" help:"Repeating a purchase under the same key buys nothing more; a new key by default."`
	Wait           time.Duration `placeholder:"DURATION" help:"Wait so long for the outcome where it is uncertain."`
	connection
}

// Help says what the exit code tells.
func (*buyCommand) Help() string {
	return "Exit code: 0 bought, or not known yet (the purchase says which); 1 rejected, or failed."
}

func (c *buyCommand) Run(ctx context.Context, a *cli) error {
	if c.Wait < 0 {
		return &usageError{"--wait must not be negative"}
	}
	if c.Metadata != "" && !json.Valid([]byte(c.Metadata)) {
		return &usageError{"--metadata is not JSON"}
	}
	api, err := c.open(a)
	if err != nil {
		return err
	}
	key := cmp.Or(c.IdempotencyKey, "cli-"+uuid.NewString())
	bought, err := api.Buy(ctx, client.Order{
		IdempotencyKey: key, AccountID: c.Account, Symbol: c.Symbol, Quantity: c.Quantity, LimitPrice: c.LimitPrice,
		Notional: c.Notional, Currency: c.Currency, ValidUntil: c.ValidUntil, Metadata: json.RawMessage(c.Metadata),
	})
	var problem *client.Problem
	if err != nil && !errors.As(err, &problem) {
		return fmt.Errorf("%w; this says nothing about the purchase: repeat it with --idempotency-key %s", err, key)
	}
	if problem != nil && problem.Status == http.StatusGatewayTimeout {
		return fmt.Errorf("%w; repeat it with --idempotency-key %s", err, key)
	}
	if err != nil {
		return asked(err)
	}
	p, err := c.await(ctx, a, api, bought.Purchase)
	if err != nil {
		return err
	}
	return c.report(a, p)
}

// await waits for the outcome as long as was asked for.
func (c *buyCommand) await(ctx context.Context, a *cli, api *client.Client, p client.Purchase) (client.Purchase, error) {
	var err error
	for deadline := time.Now().Add(c.Wait); !p.Final() && err == nil; {
		left := time.Until(deadline)
		if left < time.Second {
			return p, nil
		}
		a.progress("%s is %s%s after %d passes; waiting for %s more", p.ID, p.Status, plain(because(p.Reason)), p.Attempts, left.Round(time.Second))
		p, err = api.Wait(ctx, p.ID, left)
	}
	return p, err
}

func (c *buyCommand) report(a *cli, p client.Purchase) error {
	if c.JSON {
		if err := printJSON(a.out, p); err != nil {
			return err
		}
	} else if err := printPurchase(a.out, p); err != nil {
		return err
	}
	if p.Outcome == client.OutcomeRejected {
		return errQuiet
	}
	return nil
}
