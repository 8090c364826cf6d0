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
	Account        string        `required:"" placeholder:"ID" help:"The account that buys."`
	Symbol         string        `required:"" placeholder:"SYMBOL" help:"The symbol to buy, such as AAPL."`
	Quantity       string        `placeholder:"NUMBER" help:"The quantity to buy, with --limit-price."`
	LimitPrice     string        `placeholder:"PRICE" help:"The maximum price per unit."`
	Notional       string        `placeholder:"AMOUNT" help:"The amount to spend, instead of --quantity and --limit-price."`
	Currency       string        `placeholder:"CODE" help:"Default: the account's currency."`
	Metadata       string        `placeholder:"JSON" help:"A JSON object to store with the purchase."`
	ValidUntil     *time.Time    `placeholder:"TIME" help:"After this time (RFC 3339) nothing more is sent for the purchase."`
	IdempotencyKey string        `placeholder:"KEY" help:"Repeating a purchase with the same key buys nothing more. Default: a new key."`
	Wait           time.Duration `placeholder:"DURATION" help:"If the outcome is uncertain, wait up to this long for it."`
	connection
}

// Help returns the meaning of the exit codes.
func (*buyCommand) Help() string {
	return "Exit code: 0 if bought or not known yet (see the printed purchase), 1 if rejected or failed."
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
		return fmt.Errorf("%w; the outcome is unknown: repeat the purchase with --idempotency-key %s", err, key)
	}
	if problem != nil && problem.Status == http.StatusGatewayTimeout {
		return fmt.Errorf("%w; repeat the purchase with --idempotency-key %s", err, key)
	}
	if err != nil {
		return asUsageError(err)
	}
	p, err := c.await(ctx, a, api, bought.Purchase)
	if err != nil {
		return err
	}
	return c.report(a, p)
}

// await waits for the outcome, at most for --wait.
func (c *buyCommand) await(ctx context.Context, a *cli, api *client.Client, p client.Purchase) (client.Purchase, error) {
	var err error
	for deadline := time.Now().Add(c.Wait); !p.Final() && err == nil; {
		left := time.Until(deadline)
		if left < time.Second {
			return p, nil
		}
		a.progress("%s is %s%s after %d passes; waiting for %s more", p.ID, p.Status, plain(inParentheses(p.Reason)), p.Attempts, left.Round(time.Second))
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
