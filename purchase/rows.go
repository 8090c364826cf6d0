package purchase

import (
	"strings"

	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/internal/money"
	"holdfast/purchase/db"
)

// row is a purchase as stored; only this package sees its inner columns.
type row = db.TransactionHistory

func fromRow(r row) Purchase {
	p := Purchase{
		ID: r.ID, AccountID: r.AccountID, Status: Status(r.Status), Version: int(r.Version),
		Order: orderOf(r), Broker: r.Broker, BrokerKey: r.BrokerKey, ValidUntil: r.ValidUntil, Hold: r.Hold, Cost: r.Cost, FilledQuantity: r.FilledQuantity,
		Metadata: r.Metadata, Reason: r.Reason, Attempts: int(r.Attempts), NextRetry: r.NextRetry, UnknownSince: r.UnknownSince,
		Response: responseOf(r), CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, SettledAt: r.SettledAt,
	}
	if r.Evidence != nil {
		evidence := Evidence(*r.Evidence)
		p.Evidence = &evidence
	}
	return p
}

func orderOf(r row) broker.Order {
	return broker.Order{
		Account: r.BrokerAccount, Symbol: r.Symbol, Currency: r.Currency,
		Quantity: r.Quantity, LimitPrice: r.LimitPrice, Notional: r.Notional,
	}
}

func responseOf(r row) *Response {
	if r.BrokerStatusCode == nil {
		if r.BrokerOrderID == nil {
			return nil
		}
		return &Response{OrderID: r.BrokerOrderID}
	}
	response := &Response{
		StatusCode: int(*r.BrokerStatusCode), OrderID: r.BrokerOrderID, Truncated: r.BrokerBodyTruncated,
	}
	if r.BrokerBody != nil {
		response.Body = *r.BrokerBody
	}
	return response
}

// kept is a broker's body as stored: text, cut at limit bytes between characters.
func truncate(body []byte, limit int) (text string, truncated bool) {
	text = strings.ReplaceAll(strings.ToValidUTF8(string(body), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= limit {
		return text, false
	}
	return strings.ToValidUTF8(text[:limit], ""), true
}

func optional(d decimal.NullDecimal) string {
	if !d.Valid {
		return ""
	}
	return money.Format(d.Decimal)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
