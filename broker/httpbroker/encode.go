package httpbroker

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/internal/money"
)

// placeBody is the place request; its fields keep this order on the wire, so that equal
// orders give equal bytes.
type placeBody struct {
	ClientOrderID string  `json:"client_order_id"`
	Account       string  `json:"account"`
	Symbol        string  `json:"symbol"`
	Side          string  `json:"side"`
	Quantity      *string `json:"quantity"`
	LimitPrice    *string `json:"limit_price"`
	Notional      *string `json:"notional"`
	Currency      string  `json:"currency"`
}

// Encode implements [broker.Broker]. Amounts keep the decimals they were written with.
func (c *Client) Encode(key string, order broker.Order) ([]byte, error) {
	if key == "" {
		return nil, errors.New("encode order: the broker key is empty")
	}
	body, err := json.Marshal(placeBody{
		ClientOrderID: key,
		Account:       order.Account,
		Symbol:        order.Symbol,
		Side:          "buy",
		Quantity:      amount(order.Quantity),
		LimitPrice:    amount(order.LimitPrice),
		Notional:      amount(order.Notional),
		Currency:      order.Currency,
	}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode order: %w", err)
	}
	return body, nil
}

func amount(d decimal.NullDecimal) *string {
	if !d.Valid {
		return nil
	}
	text := money.Format(d.Decimal)
	return &text
}
