package alpaca

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// orderBody is an order as it stands on the wire; each value is read with its own care.
type orderBody struct {
	ID             jsontext.Value `json:"id"`
	ClientOrderID  jsontext.Value `json:"client_order_id"`
	Status         jsontext.Value `json:"status"`
	Side           jsontext.Value `json:"side"`
	Symbol         jsontext.Value `json:"symbol"`
	Quantity       jsontext.Value `json:"qty"`
	Notional       jsontext.Value `json:"notional"`
	LimitPrice     jsontext.Value `json:"limit_price"`
	FilledQuantity jsontext.Value `json:"filled_qty"`
	FilledPrice    jsontext.Value `json:"filled_avg_price"`
}

// order is a well-formed one.
type order struct {
	key, id, status, side string
	filled, price         decimal.NullDecimal
	echo                  broker.Echo
}

// readOrder reads one JSON object: valid UTF-8, no name twice, nothing behind it. The
// key is returned beside an error too, where it could be read.
func readOrder(body []byte) (order, error) {
	var raw orderBody
	if err := json.Unmarshal(body, &raw); err != nil {
		return order{}, fmt.Errorf("read order: %w", err)
	}
	if raw.ClientOrderID.Kind() != '"' || raw.Status.Kind() != '"' {
		return order{}, errors.New("read order: client_order_id and status must be strings")
	}
	read := order{
		key:    wire.Scalar(raw.ClientOrderID),
		status: wire.Scalar(raw.Status),
		side:   wire.Scalar(raw.Side),
	}
	return read, read.rest(raw)
}

func (o *order) rest(raw orderBody) (err error) {
	if o.id, err = wire.ID(raw.ID); err != nil {
		return fmt.Errorf("read id: %w", err)
	}
	if o.echo.Symbol, err = wire.Text(raw.Symbol); err != nil {
		return fmt.Errorf("read symbol: %w", err)
	}
	if err := o.amounts(raw); err != nil {
		return err
	}
	if o.echo.Notional.Valid {
		// What a notional order is filled with is no echo of what was ordered.
		o.echo.Quantity, o.echo.LimitPrice = decimal.NullDecimal{}, decimal.NullDecimal{}
	}
	return nil
}

func (o *order) amounts(raw orderBody) error {
	for _, field := range []struct {
		to   *decimal.NullDecimal
		from jsontext.Value
	}{
		{&o.filled, raw.FilledQuantity},
		{&o.price, raw.FilledPrice},
		{&o.echo.Quantity, raw.Quantity},
		{&o.echo.LimitPrice, raw.LimitPrice},
		{&o.echo.Notional, raw.Notional},
	} {
		amount, err := wire.Amount(field.from)
		if err != nil {
			return err
		}
		*field.to = amount
	}
	return nil
}
