package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/shopspring/decimal"
)

// record is all that the broker remembers of one key.
type record struct {
	Key     string  `json:"key"`
	Request request `json:"request"`
	// Places counts the place calls that came.
	Places int `json:"places"`
	// Lookups counts the lookups since the process started.
	Lookups int `json:"-"`
	// Order is nil where nothing was booked.
	Order *order `json:"order,omitempty"`
	// Stored is the error that every further place gets, in that mode.
	Stored *Response `json:"stored,omitempty"`
}

// order is what was booked.
type order struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Code   string `json:"code,omitempty"`
	Cost   string `json:"cost,omitempty"`
	Filled string `json:"filled,omitempty"`
	// Echo, where set, is told in place of the quantity that was ordered.
	Echo     string    `json:"echo,omitempty"`
	BookedAt time.Time `json:"booked_at"`
	// Lag is how long a lookup does not see the order yet.
	Lag Duration `json:"lag,omitempty"`
	// Working is how long the order is merely processing; below zero: permanently.
	Working Duration `json:"working,omitempty"`
}

// book makes the order as its symbol wants it.
func (r *record) book(read request) {
	booked := &order{ID: orderID(r.Key), Status: "completed", BookedAt: time.Now().UTC()}
	booked.fill(read, decimal.NewFromInt(1), decimal.NewFromInt(1))
	if shape := scenarioOf(read.Symbol).shape; shape != nil {
		shape(booked, read)
	}
	r.Order = booked
}

// fill sets how much of the order was bought and at which part of its limit.
func (o *order) fill(read request, part, price decimal.Decimal) {
	o.Cost = read.round(read.price().Mul(part).Mul(price)).String()
	o.Filled = ""
	if read.Quantity != nil {
		o.Filled = decimal.RequireFromString(*read.Quantity).Mul(part).String()
	}
}

// reject makes it an order that was refused after it was taken.
func (o *order) reject(code string) {
	o.Status, o.Code, o.Cost, o.Filled = "rejected", code, "", ""
}

// visible reports whether a lookup sees the order by now.
func (o *order) visible(lag time.Duration) bool {
	return time.Since(o.BookedAt) >= max(lag, o.Lag.std())
}

func (o *order) working() bool {
	return o.Working < 0 || time.Since(o.BookedAt) < o.Working.std()
}

// orderID derives 19 digits from the key: more than a float can hold, and the same
// after a restart.
func orderID(key string) string {
	sum := sha256.Sum256([]byte(key))
	const least, span = 1_000_000_000_000_000_000, 8_000_000_000_000_000_000
	return strconv.FormatUint(least+binary.BigEndian.Uint64(sum[:8])%span, 10)
}

// View is an order as the wire tells it.
type View struct {
	OrderID        string  `json:"order_id"`
	ClientOrderID  string  `json:"client_order_id"`
	Status         string  `json:"status"`
	Code           string  `json:"code,omitempty"`
	Message        string  `json:"message,omitempty"`
	Cost           string  `json:"cost,omitempty"`
	FilledQuantity string  `json:"filled_quantity,omitempty"`
	Symbol         string  `json:"symbol"`
	Quantity       *string `json:"quantity"`
	LimitPrice     *string `json:"limit_price"`
	Notional       *string `json:"notional"`
}

func (r *record) view() *View {
	o := r.Order
	v := &View{
		OrderID: o.ID, ClientOrderID: r.Key, Status: o.Status, Symbol: r.Request.Symbol,
		Quantity: r.Request.Quantity, LimitPrice: r.Request.LimitPrice, Notional: r.Request.Notional,
	}
	if o.Echo != "" {
		v.Quantity = &o.Echo
	}
	if o.working() {
		v.Status = "processing"
		return v
	}
	v.Code, v.Cost, v.FilledQuantity = o.Code, o.Cost, o.Filled
	if o.Code != "" {
		v.Message = "refused by the sandbox"
	}
	return v
}

// viewAfter is what a place call may tell: nil where nothing is booked.
func (r *record) viewAfter(act Response) *View {
	if r.Order == nil {
		return nil
	}
	v := r.view()
	if act.Corrupt == LieKey {
		v.ClientOrderID = "not-" + v.ClientOrderID
	}
	return v
}
