package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/client"
	"holdfast/internal/app"
	"holdfast/internal/config"
	"holdfast/statement"
)

type matchCommand struct {
	Since time.Time `placeholder:"TIME" help:"Start of the period (RFC 3339). Default: a day before --until, or the first order of --file."`
	Until time.Time `placeholder:"TIME" help:"End of the period. Default: the settle time and 5 minutes ago, or the last order of --file."`
	File  string    `placeholder:"FILE" help:"Compare this list instead of the broker's: one order per line as the http broker lists them, with created_at; - reads standard input."`
	JSON  bool      `help:"Print JSON."`
}

func (c *matchCommand) Run(ctx context.Context, a *cli) error {
	if !c.Until.IsZero() && !c.Since.Before(c.Until) {
		return &usageError{"--since must be before --until"}
	}
	settings, err := config.Load(a.env)
	if err != nil {
		return err
	}
	orders, err := c.readFile(a)
	if err != nil {
		return err
	}
	pool, done, err := app.OpenDatabase(ctx, settings)
	if err != nil {
		return err
	}
	defer done()
	matcher, closeMatcher, err := app.OpenMatcher(ctx, settings, pool, app.NewLogger(a.errOut, settings.Log, a.interactive))
	if err != nil {
		return err
	}
	defer closeMatcher()
	r := statement.Range{Since: c.Since, Until: c.Until}
	var report statement.Report
	if c.File == "" {
		report, err = matcher.Match(ctx, r)
	} else {
		report, err = matcher.MatchOrders(ctx, orders, r)
	}
	if err != nil {
		return fmt.Errorf("match: %w", err)
	}
	return c.print(ctx, a.out, pool, report)
}

// maxOpen is the maximum number of open findings that are printed.
const maxOpen = 500

// print prints the report and the broker's open findings, and fails if there are any.
func (c *matchCommand) print(ctx context.Context, out io.Writer, pool *pgxpool.Pool, r statement.Report) error {
	open := true
	found, err := statement.NewFindings(pool).List(ctx, statement.ListParams{Open: &open, Broker: &r.Broker, Limit: maxOpen})
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(out, matchJSON{
			Broker: r.Broker, Since: r.Since, Until: r.Until, Orders: r.Orders, Foreign: r.Foreign, Purchases: r.Purchases,
			New: asClient(r.New), Open: asClient(found),
		})
	} else {
		err = printMatch(out, r, found)
	}
	if err == nil && len(found) > 0 {
		return errQuiet
	}
	return err
}

type matchJSON struct {
	Broker    string           `json:"broker"`
	Since     time.Time        `json:"since"`
	Until     time.Time        `json:"until"`
	Orders    int              `json:"orders"`
	Foreign   int              `json:"foreign"`
	Purchases int              `json:"purchases"`
	New       []client.Finding `json:"new"`
	Open      []client.Finding `json:"open"`
}

func asClient(found []statement.Finding) []client.Finding {
	shown := make([]client.Finding, len(found))
	for i, f := range found {
		shown[i] = client.Finding{
			ID: f.ID.String(), Kind: string(f.Kind), Broker: f.Broker, OrderID: f.OrderID, Detail: f.Detail,
			CreatedAt: f.CreatedAt, ClosedAt: f.ClosedAt, Note: f.Note,
		}
		if f.PurchaseID != nil {
			id := f.PurchaseID.String()
			shown[i].PurchaseID = &id
		}
	}
	return shown
}

func printMatch(out io.Writer, r statement.Report, open []statement.Finding) error {
	say(out, "%s, %s to %s: %d of our orders, %d other orders, %d purchases, %d new findings\n", plain(r.Broker),
		moment(&r.Since), moment(&r.Until), r.Orders, r.Foreign, r.Purchases, len(r.New))
	if len(open) == 0 {
		_, err := fmt.Fprintln(out, "no open findings")
		return err
	}
	say(out, "open findings:\n")
	return printFindings(out, asClient(open))
}

func printFindings(out io.Writer, findings []client.Finding) error {
	t := newTable(out, "ID", "KIND", "BROKER", "PURCHASE", "ORDER", "FOUND", "CLOSED", "DETAIL")
	for _, f := range findings {
		t.row(f.ID, f.Kind, f.Broker, value(f.PurchaseID), value(f.OrderID), moment(&f.CreatedAt), moment(f.ClosedAt), f.Detail)
	}
	return t.flush()
}
