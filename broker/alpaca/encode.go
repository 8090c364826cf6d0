package alpaca

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/internal/money"
)

// maxKey is the longest client order id that Alpaca takes.
const maxKey = 128

// placeBody is the place request; its fields keep this order on the wire, so that equal
// orders give equal bytes.
type placeBody struct {
	Symbol        string `json:"symbol"`
	Quantity      string `json:"qty,omitzero"`
	Notional      string `json:"notional,omitzero"`
	Side          string `json:"side"`
	Type          string `json:"type"`
	TimeInForce   string `json:"time_in_force"`
	LimitPrice    string `json:"limit_price,omitzero"`
	ClientOrderID string `json:"client_order_id"`
}

// Encode implements [broker.Broker]. It refuses what can never become an order here: a
// currency other than US dollars, a key that Alpaca would not take, an account without a name.
func (c *client) Encode(key string, order broker.Order) ([]byte, error) {
	if key == "" || len(key) > maxKey {
		return nil, fmt.Errorf("encode order: the broker key must have 1 to %d characters", maxKey)
	}
	if order.Currency != "USD" {
		return nil, &broker.UnsupportedError{Field: "currency", Message: "must be USD: the broker trades in nothing else"}
	}
	if _, err := c.api.orders(order.Account); err != nil {
		return nil, &broker.UnsupportedError{Field: "account_id", Message: "has no account at the broker"}
	}
	body, err := json.Marshal(c.placeBody(key, order), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode order: %w", err)
	}
	return body, nil
}

func (c *client) placeBody(key string, order broker.Order) placeBody {
	body := placeBody{Symbol: order.Symbol, Side: "buy", ClientOrderID: key, TimeInForce: string(Day)}
	if order.Notional.Valid {
		body.Type, body.Notional = "market", money.Format(order.Notional.Decimal)
		return body
	}
	body.Type = "limit"
	body.Quantity, body.LimitPrice = money.Format(order.Quantity.Decimal), money.Format(order.LimitPrice.Decimal)
	if whole(order.Quantity.Decimal) {
		body.TimeInForce = string(c.timeInForce)
	}
	return body
}

func whole(d decimal.Decimal) bool { return d.Equal(d.Truncate(0)) }
