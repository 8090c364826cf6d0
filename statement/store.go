package statement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/statement/db"
)

// AlertFinding is the type of the alert about new findings.
const AlertFinding = "statement.finding"

// store stores discrepancies that are not known, and returns those.
func (m *Matcher) store(ctx context.Context, found []discrepancy) ([]Finding, error) {
	// In one order, so that two matchers that found the same do not deadlock.
	slices.SortFunc(found, func(a, b discrepancy) int {
		return strings.Compare(string(a.kind)+a.subject(), string(b.kind)+b.subject())
	})
	var stored []Finding
	for chunk := range slices.Chunk(found, batch) {
		rows, err := db.New(m.Pool).InsertFindings(ctx, m.insertParams(chunk))
		if err != nil {
			return nil, fmt.Errorf("store findings: %w", err)
		}
		stored = append(stored, fromRows(rows)...)
	}
	for _, f := range stored {
		m.Log.ErrorContext(ctx, "broker's list differs from ours", "finding_id", f.ID, "kind", f.Kind,
			"broker", f.Broker, "purchase_id", f.PurchaseID, "detail", f.Detail)
	}
	return stored, nil
}

func (m *Matcher) insertParams(found []discrepancy) db.InsertFindingsParams {
	p := db.InsertFindingsParams{Broker: m.can.Name}
	for _, d := range found {
		p.Ids = append(p.Ids, uuid.Must(uuid.NewV7()))
		p.Kinds = append(p.Kinds, string(d.kind))
		p.Subjects = append(p.Subjects, clean(d.subject()))
		p.Keys = append(p.Keys, d.key)
		p.Purchases = append(p.Purchases, d.purchaseID)
		p.Orders = append(p.Orders, clean(d.orderID))
		p.Details = append(p.Details, clean(d.detail))
	}
	return p
}

// clean drops what Postgres cannot store from a broker's text.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

// errAlertedRecently rolls the marks back, so that a later match raises the alert.
var errAlertedRecently = errors.New("alerted within the hour")

// alert raises one alert about all open findings of the broker that none has reported yet.
func (m *Matcher) alert(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, m.Pool, func(tx pgx.Tx) error {
		rows, err := db.New(tx).MarkAlerted(ctx, m.can.Name)
		if err != nil || len(rows) == 0 {
			return err
		}
		raised, err := m.Alerts.RaiseTx(ctx, tx, AlertFinding, alertData(rows))
		if err == nil && !raised {
			err = errAlertedRecently
		}
		return err
	})
	if err != nil && !errors.Is(err, errAlertedRecently) {
		return fmt.Errorf("alert about findings: %w", err)
	}
	return nil
}

// alertData names the oldest finding and counts them all.
func alertData(rows []db.StatementFinding) map[string]any {
	kinds := map[string]int{}
	first := rows[0]
	for _, r := range rows {
		kinds[r.Kind]++
		if r.ID.String() < first.ID.String() {
			first = r
		}
	}
	f := fromRow(first)
	return map[string]any{
		"broker": f.Broker, "findings": len(rows), "kinds": kinds,
		"finding_id": f.ID, "kind": f.Kind, "purchase_id": f.PurchaseID, "order_id": f.OrderID, "detail": f.Detail,
	}
}
