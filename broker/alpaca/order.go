package alpaca

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// orderBody is an order as it was written; each value is read with its own rule. Its
// other members are ignored.
type orderBody struct {
	id, clientOrderID, status, side        jsontext.Value
	symbol, quantity, notional, limitPrice jsontext.Value
	filledQuantity, filledPrice            jsontext.Value
}

func (b *orderBody) fields() map[string]*jsontext.Value {
	return map[string]*jsontext.Value{
		"id": &b.id, "client_order_id": &b.clientOrderID, "status": &b.status, "side": &b.side,
		"symbol": &b.symbol, "qty": &b.quantity, "notional": &b.notional, "limit_price": &b.limitPrice,
		"filled_qty": &b.filledQuantity, "filled_avg_price": &b.filledPrice,
	}
}

// order is a well-formed one.
type order struct {
	key, id, status, side string
	filled, price         decimal.NullDecimal
	echo                  broker.Echo
}

// readOrder reads one order. The key is returned with an error too, if it could be read.
func readOrder(body []byte) (order, error) {
	var raw orderBody
	if err := wire.Object(body, raw.fields()); err != nil {
		return order{}, fmt.Errorf("read order: %w", err)
	}
	key, err := wire.Text(raw.clientOrderID)
	if err != nil || key == nil || raw.status.Kind() != '"' {
		return order{}, errors.New("read order: client_order_id or status is missing or malformed")
	}
	read := order{key: *key}
	return read, read.rest(raw)
}

func (o *order) rest(raw orderBody) error {
	for _, field := range []struct {
		to   *string
		from jsontext.Value
	}{{&o.status, raw.status}, {&o.side, raw.side}} {
		text, err := wire.Text(field.from)
		if err != nil {
			return fmt.Errorf("read status and side: %w", err)
		}
		if text != nil {
			*field.to = *text
		}
	}
	id, err := wire.ID(raw.id)
	if err != nil {
		return fmt.Errorf("read id: %w", err)
	}
	symbol, err := wire.Text(raw.symbol)
	if err != nil {
		return fmt.Errorf("read symbol: %w", err)
	}
	o.id, o.echo.Symbol = id, plainSymbol(symbol)
	if err := o.amounts(raw); err != nil {
		return err
	}
	if o.echo.Notional.Valid {
		// What a notional order is filled with is no echo of what was ordered.
		o.echo.Quantity, o.echo.LimitPrice = decimal.NullDecimal{}, decimal.NullDecimal{}
	}
	return nil
}

// plainSymbol is the symbol without the slash that Alpaca puts into a currency pair: an
// order for BTCUSD comes back as BTC/USD, and no symbol of ours has a slash.
func plainSymbol(symbol *string) *string {
	if symbol == nil {
		return nil
	}
	plain := strings.ReplaceAll(*symbol, "/", "")
	return &plain
}

func (o *order) amounts(raw orderBody) error {
	for _, field := range []struct {
		to   *decimal.NullDecimal
		from jsontext.Value
		read func(jsontext.Value) (decimal.NullDecimal, error)
	}{
		{&o.filled, raw.filledQuantity, wire.Amount},
		{&o.price, raw.filledPrice, wire.Amount},
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
