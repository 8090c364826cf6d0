package purchase

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/purchase/db"
)

// needsFullUpdate reports whether a move needs the door's whole statement. The plain case, nearly
// every purchase's only move, is the end of a recorded purchase by its own reply, at no
// more than was held.
func needsFullUpdate(m transition) bool {
	if m.recorded == nil || m.from != Pending || !m.to.Final() || m.exchange.answer.StatusCode == 0 {
		return true
	}
	cost := m.exchange.answer.Cost
	return m.cost != "" && cost.Decimal.GreaterThan(m.recorded.Hold)
}

// settleRows runs the door's short statement.
func settleRows(ctx context.Context, conn db.DBTX, changes []transition) ([]row, error) {
	all := paramsOf(changes)
	rows, err := db.New(conn).SettleReplies(ctx, db.SettleRepliesParams{
		Ids: all.Ids, Statuses: all.Statuses, Reasons: all.Reasons, Costs: all.Costs,
		FilledQuantities: all.FilledQuantities, OrderIds: all.OrderIds, Results: all.Results,
		ResultReasons: all.ResultReasons, StatusCodes: all.StatusCodes, Bodies: all.Bodies,
		Truncated: all.Truncated, Durations: all.Durations, Pending: string(Pending),
	})
	if err != nil {
		return nil, fmt.Errorf("settle purchases: %w", err)
	}
	at := make(map[uuid.UUID]int, len(changes))
	for i, m := range changes {
		at[m.id] = i
	}
	settled := make([]row, len(rows))
	for n, r := range rows {
		i := at[r.ID]
		settled[n] = changes[i].settledRow(all.Bodies[i], all.Truncated[i])
		settled[n].UpdatedAt, settled[n].SettledAt = r.UpdatedAt, &r.UpdatedAt
	}
	return settled, nil
}

// settledRow is the recorded row with what the plain case changes; the statement's twin.
func (m transition) settledRow(body string, truncated bool) row {
	r, a := *m.recorded, m.exchange.answer
	code, took := int32(a.StatusCode), a.Duration.Milliseconds()
	result, evidence := string(a.Verdict), string(ByReply)
	r.Status, r.Version, r.Evidence = string(m.to), 2, &evidence
	r.Reason, r.BrokerOrderID = pointer(sanitizeText(m.reason)), pointer(sanitizeText(m.orderID))
	r.BrokerStatusCode, r.BrokerBody, r.BrokerBodyTruncated = &code, &body, truncated
	r.PlaceResult, r.PlaceReason = &result, pointer(sanitizeText(resultReason(a)))
	r.PlaceStatusCode, r.PlaceDurationMs = &code, &took
	if m.to == Completed {
		r.Cost, r.FilledQuantity = decimal.NewNullDecimal(r.Hold), r.Quantity
		if m.cost != "" {
			r.Cost = a.Cost
		}
		if m.filled != "" {
			r.FilledQuantity = a.FilledQuantity
		}
	}
	return r
}
