package httpbroker

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// orderBody is a 2xx as it stands on the wire; each value is read with its own care.
type orderBody struct {
	OrderID        jsontext.Value `json:"order_id"`
	ClientOrderID  jsontext.Value `json:"client_order_id"`
	Status         jsontext.Value `json:"status"`
	Code           jsontext.Value `json:"code"`
	Cost           jsontext.Value `json:"cost"`
	FilledQuantity jsontext.Value `json:"filled_quantity"`
	Symbol         jsontext.Value `json:"symbol"`
	Quantity       jsontext.Value `json:"quantity"`
	LimitPrice     jsontext.Value `json:"limit_price"`
	Notional       jsontext.Value `json:"notional"`
}

// order is a well-formed 2xx.
type order struct {
	key, id, status, code string
	cost, filled          decimal.NullDecimal
	echo                  broker.Echo
}

// readOrder reads one JSON object: valid UTF-8, no name twice, nothing behind it. Our
// key must be there, and the order id but for a rejection; the status may be missing,
// which says nothing.
// The key is returned beside an error too, where it could be read.
func readOrder(body []byte) (order, error) {
	var raw orderBody
	if err := json.Unmarshal(body, &raw); err != nil {
		return order{}, fmt.Errorf("read order: %w", err)
	}
	key, err := wire.Text(raw.ClientOrderID)
	if err != nil || key == nil {
		return order{}, errors.New("read order: no client_order_id")
	}
	var read order
	read.key = *key
	return read, errors.Join(read.words(raw), read.amounts(raw))
}

func (o *order) words(raw orderBody) (err error) {
	status, err := wire.Text(raw.Status)
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if status != nil {
		o.status = *status
	}
	if o.id, err = o.orderID(raw.OrderID); err != nil {
		return fmt.Errorf("read order_id: %w", err)
	}
	o.code = wire.Scalar(raw.Code)
	o.echo.Symbol, err = wire.Text(raw.Symbol)
	return err
}

// orderID reads the id. An order that was never made need not have one.
func (o *order) orderID(value jsontext.Value) (string, error) {
	none := len(value) == 0 || value.Kind() == 'n' || string(value) == `""`
	if none && o.status == "rejected" {
		return "", nil
	}
	return wire.ID(value)
}

func (o *order) amounts(raw orderBody) error {
	for _, field := range []struct {
		to   *decimal.NullDecimal
		from jsontext.Value
	}{
		{&o.cost, raw.Cost},
		{&o.filled, raw.FilledQuantity},
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

// plausible reports whether what was filled, where it is told, can be a purchase of what
// was ordered, where that is repeated.
func (o *order) plausible() bool {
	if !o.filled.Valid {
		return true
	}
	over := o.echo.Quantity.Valid && o.filled.Decimal.GreaterThan(o.echo.Quantity.Decimal)
	return o.filled.Decimal.IsPositive() && !over
}

func positive(d decimal.NullDecimal) bool { return d.Valid && d.Decimal.IsPositive() }
