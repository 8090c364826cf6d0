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
	// Echo, if set, replaces the quantity that was ordered in answers.
	Echo     string    `json:"echo,omitempty"`
	BookedAt time.Time `json:"booked_at"`
	// Lag is how long, and LagLookups for how many lookups, the order is not found yet.
	Lag        Duration `json:"lag,omitempty"`
	LagLookups int      `json:"lag_lookups,omitempty"`
	// Working is how long, and WorkingLookups for how many lookups, the order is processing;
	// a Working below zero: permanently.
	Working        Duration `json:"working,omitempty"`
	WorkingLookups int      `json:"working_lookups,omitempty"`
	// Gateway is how long a gateway answers in place of the broker.
	Gateway Duration `json:"gateway,omitempty"`
	// Form is how answers about the order are written, see View.
	Form string `json:"form,omitempty"`
	// Unlisted: the list leaves the order out. Second: it has another one under the key.
	Unlisted bool `json:"unlisted,omitempty"`
	Second   bool `json:"second,omitempty"`
	// ListedCost and ListedFilled, if set, replace the amounts in the list.
	ListedCost   string `json:"listed_cost,omitempty"`
	ListedFilled string `json:"listed_filled,omitempty"`

	lookups int // since it was booked, or the process started
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

// visible reports whether a lookup sees the order by now; each lookup asks once.
func (o *order) visible(m Mode) bool {
	o.lookups++
	return time.Since(o.BookedAt) >= max(m.Lag, o.Lag).std() && o.lookups > max(m.LagLookups, o.LagLookups)
}

func (o *order) working() bool {
	return o.Working < 0 || time.Since(o.BookedAt) < o.Working.std() || o.lookups <= o.LagLookups+o.WorkingLookups && o.WorkingLookups > 0
}

func (o *order) behindGateway() bool { return time.Since(o.BookedAt) < o.Gateway.std() }

// orderID derives 19 digits from the key: more than a float can hold, and the same
// after a restart.
func orderID(key string) string {
	sum := sha256.Sum256([]byte(key))
	const least, span = 1_000_000_000_000_000_000, 8_000_000_000_000_000_000
	return strconv.FormatUint(least+binary.BigEndian.Uint64(sum[:8])%span, 10)
}
