package httpbroker

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// orderBody is an order as it was written; each value is read with its own rule. What it
// does not name ("message" too) is ignored.
type orderBody struct {
	orderID, clientOrderID, status, code   jsontext.Value
	cost, filledQuantity                   jsontext.Value
	symbol, quantity, limitPrice, notional jsontext.Value
}

func (b *orderBody) fields() map[string]*jsontext.Value {
	return map[string]*jsontext.Value{
		"order_id": &b.orderID, "client_order_id": &b.clientOrderID, "status": &b.status, "code": &b.code,
		"cost": &b.cost, "filled_quantity": &b.filledQuantity,
		"symbol": &b.symbol, "quantity": &b.quantity, "limit_price": &b.limitPrice, "notional": &b.notional,
	}
}

// order is a well-formed one.
type order struct {
	key, id, status, code string
	cost, filled          decimal.NullDecimal
	echo                  broker.Echo
}

// readOrder reads one order. Our key must be there, and the order id except for a
// rejection; the status may be missing, which proves nothing. The key is returned with an
// error too, if it could be read.
func readOrder(body []byte) (order, error) {
	var raw orderBody
	if err := wire.Object(body, raw.fields()); err != nil {
		return order{}, fmt.Errorf("read order: %w", err)
	}
	key, err := wire.Text(raw.clientOrderID)
	if err != nil || key == nil {
		return order{}, errors.New("read order: client_order_id is missing or malformed")
	}
	var read order
	read.key = *key
	return read, errors.Join(read.texts(raw), read.amounts(raw))
}

func (o *order) texts(raw orderBody) (err error) {
	if o.status, err = optional(raw.status); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if o.id, err = o.orderID(raw.orderID); err != nil {
		return fmt.Errorf("read order_id: %w", err)
	}
	if o.code, err = optional(raw.code); err != nil {
		return fmt.Errorf("read code: %w", err)
	}
	o.echo.Symbol, err = wire.Text(raw.symbol)
	return err
}

// optional reads a string, empty if it is absent.
func optional(value jsontext.Value) (string, error) {
	text, err := wire.Text(value)
	if text == nil {
		return "", err
	}
	return wire.Storable(*text), err
}

// orderID reads the id. An order that was never made need not have one.
func (o *order) orderID(value jsontext.Value) (string, error) {
	absent := len(value) == 0 || value.Kind() == 'n' || string(value) == `""`
	if absent && o.status == "rejected" {
		return "", nil
	}
	return wire.ID(value)
}

func (o *order) amounts(raw orderBody) error {
	for _, field := range []struct {
		to   *decimal.NullDecimal
		from jsontext.Value
		read func(jsontext.Value) (decimal.NullDecimal, error)
	}{
		{&o.cost, raw.cost, wire.Amount},
		{&o.filled, raw.filledQuantity, wire.Amount},
		{&o.echo.Quantity, raw.quantity, wire.Size},
		{&o.echo.LimitPrice, raw.limitPrice, wire.Size},
		{&o.echo.Notional, raw.notional, wire.Size},
	} {
		amount, err := field.read(field.from)
		if err != nil {
			return err
		}
		*field.to = amount
	}
	return nil
}

// plausible reports whether what was filled, if the answer says it, can be a purchase of
// what was ordered, if the answer repeats it.
func (o *order) plausible() bool {
	if !o.filled.Valid {
		return true
	}
	over := o.echo.Quantity.Valid && o.filled.Decimal.GreaterThan(o.echo.Quantity.Decimal)
	return o.filled.Decimal.IsPositive() && !over
}

func positive(d decimal.NullDecimal) bool { return d.Valid && d.Decimal.IsPositive() }
