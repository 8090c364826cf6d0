package statement

import (
	"time"

	"github.com/shopspring/decimal"

	"holdfast/broker"
)

// storedOrder is a listed order as statement_deferred keeps it.
type storedOrder struct {
	OrderID        string              `json:"order_id"`
	Key            string              `json:"client_order_id"`
	Account        string              `json:"account"`
	Status         broker.Verdict      `json:"status"`
	CreatedAt      time.Time           `json:"created_at"`
	Cost           decimal.NullDecimal `json:"cost"`
	FilledQuantity decimal.NullDecimal `json:"filled_quantity"`
	Symbol         *string             `json:"symbol"`
	Quantity       decimal.NullDecimal `json:"quantity"`
	LimitPrice     decimal.NullDecimal `json:"limit_price"`
	Notional       decimal.NullDecimal `json:"notional"`
}

func asStored(o broker.ListedOrder) storedOrder {
	return storedOrder{
		OrderID: clean(o.OrderID), Key: o.Key, Account: o.Account, Status: o.Status, CreatedAt: o.CreatedAt,
		Cost: o.Cost, FilledQuantity: o.FilledQuantity,
		Symbol: o.Echo.Symbol, Quantity: o.Echo.Quantity, LimitPrice: o.Echo.LimitPrice, Notional: o.Echo.Notional,
	}
}

func (o storedOrder) listed() broker.ListedOrder {
	return broker.ListedOrder{
		OrderID: o.OrderID, Key: o.Key, Account: o.Account, Status: o.Status, CreatedAt: o.CreatedAt,
		Cost: o.Cost, FilledQuantity: o.FilledQuantity,
		Echo: broker.Echo{Symbol: o.Symbol, Quantity: o.Quantity, LimitPrice: o.LimitPrice, Notional: o.Notional},
	}
}
