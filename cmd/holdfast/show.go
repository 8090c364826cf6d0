package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"holdfast/client"
)

type showCommand struct {
	ID string `arg:"" help:"The purchase's id."`
	connection
}

func (c *showCommand) Run(ctx context.Context, a *cli) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	p, err := api.Purchase(ctx, c.ID)
	if err != nil {
		return err
	}
	history, err := api.History(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.out, struct {
			client.Purchase
			History []client.Entry `json:"history"`
		}{p, history})
	}
	if err := printPurchase(a.out, p); err != nil {
		return err
	}
	say(a.out, "\n")
	return printHistory(a.out, history)
}

// printPurchase prints a purchase as a table.
func printPurchase(out io.Writer, p client.Purchase) error {
	t := newTable(out, "purchase", p.ID)
	t.row("status", p.Status+inParentheses(p.Reason))
	t.row("outcome", p.Outcome+by(p.Evidence))
	t.row("order", describeOrder(p))
	t.row("account", p.AccountID)
	t.row("reserved", p.Reserved+" "+p.Currency)
	if p.Cost != nil {
		t.row("cost", *p.Cost+" "+p.Currency)
	}
	if p.FilledQuantity != nil {
		t.row("filled", *p.FilledQuantity)
	}
	t.row("certainty", p.Certainty)
	t.row("broker", p.Broker)
	if p.BrokerKey != "" {
		t.row("broker key", p.BrokerKey)
	}
	if p.BrokerResponse != nil && p.BrokerResponse.OrderID != nil {
		t.row("broker order", *p.BrokerResponse.OrderID)
	}
	t.row("passes", fmt.Sprintf("%d of %d", p.Attempts, p.AttemptsLimit))
	if p.NextRetry != nil {
		t.row("next pass", moment(p.NextRetry))
	}
	if p.ResolveBy != nil {
		t.row("resolved by", moment(p.ResolveBy))
	}
	if p.ValidUntil != nil {
		t.row("valid until", moment(p.ValidUntil))
	}
	t.row("created", moment(&p.CreatedAt))
	if p.SettledAt != nil {
		t.row("settled", moment(p.SettledAt))
	}
	return t.flush()
}

func inParentheses(reason *string) string {
	if reason == nil {
		return ""
	}
	return " (" + *reason + ")"
}

func by(evidence *string) string {
	if evidence == nil {
		return ""
	}
	return " (by " + *evidence + ")"
}

func describeOrder(p client.Purchase) string {
	if p.Notional != nil {
		return fmt.Sprintf("%s %s for %s %s", p.Side, p.Symbol, *p.Notional, p.Currency)
	}
	return fmt.Sprintf("%s %s %s at %s %s", p.Side, value(p.Quantity), p.Symbol, value(p.LimitPrice), p.Currency)
}

func value(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// printHistory prints a purchase's history, with the time since its creation.
func printHistory(out io.Writer, history []client.Entry) error {
	t := newTable(out, "TIME", "AFTER", "WHAT", "DETAIL", "BY")
	for _, e := range history {
		what, detail, actor := describeEntry(e)
		t.row(e.At.Local().Format("15:04:05.000"), since(history[0].At, e.At), what, detail, orDash(actor))
	}
	return t.flush()
}

func since(created, at time.Time) string {
	return "+" + at.Sub(created).Round(time.Millisecond).String()
}

func describeEntry(e client.Entry) (what, detail, actor string) {
	switch e.Kind {
	case "status":
		return e.Status, "version " + strconv.Itoa(e.Version) + inParentheses(e.Reason), e.Actor
	case "attempt":
		return e.Call, describeAttempt(e), "broker"
	default:
		return "note", strings.TrimSpace(e.Code + ": " + e.Detail), e.Actor
	}
}

func describeAttempt(e client.Entry) string {
	if e.Result == nil {
		return "no answer recorded"
	}
	text := *e.Result
	if e.Reason != nil && *e.Reason != text { // "processing" is both
		text += inParentheses(e.Reason)
	}
	if e.StatusCode != nil {
		text += ", HTTP " + strconv.Itoa(*e.StatusCode)
	}
	if e.DurationMS != nil {
		text += ", " + milliseconds(*e.DurationMS)
	}
	return text
}

// milliseconds formats a duration that is known in whole milliseconds only.
func milliseconds(ms int64) string {
	if ms == 0 {
		return "<1ms"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}
