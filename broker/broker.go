package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Broker is one broker behind one adapter.
//
// Place and Lookup never return an error: whatever happens on the wire is evidence
// of something, if only of our not knowing. Both honour ctx at every step, and its
// deadline covers the whole exchange. Both are safe for concurrent use.
type Broker interface {
	Capabilities() Capabilities

	// Encode returns the bytes of the place request. They are stored with the
	// purchase and sent unchanged in every replay, so equal input must give equal bytes.
	// An order that the broker can never take gives an [*UnsupportedError].
	Encode(key string, order Order) ([]byte, error)

	// Place sends request once: nothing below it may send it a second time.
	Place(ctx context.Context, request Request) Answer

	// Lookup asks for the order that was placed under query's key.
	Lookup(ctx context.Context, query Query) Answer
}

// Lister is implemented by an adapter whose broker can list orders.
type Lister interface {
	// List returns the orders created in the window, one page per call. It returns
	// an error if the page is not whole and well formed.
	List(ctx context.Context, window Window) (Page, error)
}

// Capabilities is what an adapter declares of its broker. Replays and rejections
// are only as safe as these promises.
type Capabilities struct {
	// Name is stored with each purchase: evidence from another broker counts for nothing.
	Name string
	// Idempotent: a second place under the same key buys nothing. False: never replayed.
	Idempotent bool
	// KeyRetention is how long the broker remembers a key, counted from the first call.
	KeyRetention time.Duration
	// Settle is how long an order may stay invisible to Lookup after it was placed.
	Settle time.Duration
	// Timeout is the deadline of one exchange, all of it.
	Timeout time.Duration
	// ProcessingInterval is how soon to look again while the broker is working on an
	// order; such passes use up age, not attempts. 0 means that they back off like others.
	ProcessingInterval time.Duration
	// NoLookup reports whether the broker cannot look up an order. Passes then replay.
	NoLookup bool
	// AbsenceLookups is how many consecutive "not found" answers a rejection needs that
	// is based on absence; below 1 counts as 1.
	AbsenceLookups int
}

// Request is a place call: the broker key and the bytes of [Broker.Encode].
type Request struct {
	Key string
	// Account is the account's name at the broker.
	Account string
	Body    []byte
	// SendBefore is when the order must have been sent: no byte of it is sent later,
	// whatever delays it, and if none was sent by then, the answer is NotSent. It does not
	// limit the wait for the answer. The zero time sets no limit beyond the context's.
	SendBefore time.Time
}

// Query names the order that a lookup asks for.
type Query struct {
	Key string
	// Account is the account's name at the broker.
	Account string
	// SendBefore is when the lookup must have been sent; after it nothing is sent and the
	// answer is NotSent. The zero time sets no limit beyond the context's.
	SendBefore time.Time
}

// Window selects a broker's orders by creation time: from Since (inclusive) until Until
// (exclusive), starting at Cursor, which is empty for the first page.
type Window struct {
	Since, Until time.Time
	Cursor       string
}

// Page is one page of a broker's list. NextCursor is empty on the last one.
type Page struct {
	Orders     []ListedOrder
	NextCursor string
}

// ListedOrder is one order of a broker's list.
type ListedOrder struct {
	OrderID string
	// Key is the client order id, empty if the order has none.
	Key     string
	Account string
	// Status is the verdict that the order's status amounts to: Accepted, Rejected,
	// Processing or, for a status that proves nothing, Uncertain.
	Status         Verdict
	CreatedAt      time.Time
	Cost           decimal.NullDecimal
	FilledQuantity decimal.NullDecimal
	Echo           Echo
}

// Order is what is to be bought: Quantity and LimitPrice, or Notional.
type Order struct {
	// Account is the account's name at the broker.
	Account    string
	Symbol     string
	Currency   string
	Quantity   decimal.NullDecimal
	LimitPrice decimal.NullDecimal
	Notional   decimal.NullDecimal
}

// Verdict is what one answer proves on its own.
type Verdict string

const (
	// Accepted: the broker names this key and says the purchase is done.
	Accepted Verdict = "accepted"
	// Rejected: the broker refused. On a first call that is final; on a replay it
	// says nothing about the order that may already exist.
	Rejected Verdict = "rejected"
	// Processing: the broker has the order and has not finished with it.
	Processing Verdict = "processing"
	// Absent: the broker knows no order under this key. Only a lookup can say so.
	Absent Verdict = "absent"
	// Uncertain: nothing trustworthy came back; Answer.Reason says what did.
	Uncertain Verdict = "uncertain"
	// NotSent: no byte can have left (refused, no such host, too late to send).
	NotSent Verdict = "not_sent"
)

// Reason says why an answer proves nothing.
type Reason string

// The reasons; an adapter gives no others.
const (
	Timeout             Reason = "timeout"
	ConnectionFailed    Reason = "connection_failed"
	ConnectionClosed    Reason = "connection_closed"
	Broker5xx           Reason = "broker_5xx"
	Broker4xx           Reason = "broker_4xx"
	Redirect            Reason = "redirect"
	UnreadableResponse  Reason = "unreadable_response"
	UnconfirmedResponse Reason = "unconfirmed_response"
	Mismatch            Reason = "mismatch"
	DuplicateKey        Reason = "duplicate_key"
	InProcessing        Reason = "processing"
)

// Answer is the evidence of one exchange.
type Answer struct {
	Verdict Verdict
	// Reason is set if Verdict is Processing, Uncertain or NotSent.
	Reason Reason
	// Code is the broker's own code of a rejection, empty if it gave none.
	Code string

	// OrderID, Cost and FilledQuantity are the broker's, if it gave them. An
	// absent FilledQuantity means the whole quantity, an absent Cost what was held.
	OrderID        string
	Cost           decimal.NullDecimal
	FilledQuantity decimal.NullDecimal
	// Echo is what the broker says was ordered; the purchase compares it.
	Echo Echo

	// BrokerRefusal reports whether a 4xx came whole and in the broker's own form (on the
	// http wire a JSON object with a string "code"). Anything else may be a gateway's
	// answer: on a replay it never counts towards a rejection.
	BrokerRefusal bool
	// Duplicate: the broker says this key was used before.
	Duplicate bool
	// AboutCaller: a rejection that speaks of us (credentials, rate, a conflict),
	// not of the order. On a replay it never counts towards a rejection.
	AboutCaller bool
	// CredentialsRefused: the broker did not take our credentials.
	CredentialsRefused bool
	// Answered: a status line below 500 came back, so the broker is there.
	Answered bool
	// RetryAfter is the minimum wait that the broker asked for, zero if it asked for none.
	RetryAfter time.Duration

	// StatusCode is zero where no status line was read.
	StatusCode int
	// Body is the answer's body as received, at most MaxBody bytes.
	Body []byte
	// Duration is the time the whole exchange took.
	Duration time.Duration
}

// MaxBody is the most an adapter reads of an answer's body; a longer one is unreadable.
const MaxBody = 1 << 20

// Echo is the order as the broker repeats it. A nil Symbol or an invalid decimal
// was not repeated and cannot disagree.
type Echo struct {
	Symbol     *string
	Quantity   decimal.NullDecimal
	LimitPrice decimal.NullDecimal
	Notional   decimal.NullDecimal
}

// Contradiction says what e names otherwise than order (symbol, quantity, price or
// notional, by value), or nothing. What the order left to the broker (the quantity that a
// notional buys, say) the broker may name as it likes, but an order by quantity that comes
// back as one by notional is another order.
func (e Echo) Contradiction(order Order) string {
	var said []string
	if e.Symbol != nil && *e.Symbol != order.Symbol {
		said = append(said, fmt.Sprintf("symbol %s, ordered %s", *e.Symbol, order.Symbol))
	}
	if order.Notional.Valid {
		said = append(said, differs("notional", e.Notional, order.Notional)...)
		return strings.Join(said, "; ")
	}
	said = append(said, differs("quantity", e.Quantity, order.Quantity)...)
	said = append(said, differs("limit_price", e.LimitPrice, order.LimitPrice)...)
	if e.Notional.Valid && !e.Quantity.Valid {
		said = append(said, fmt.Sprintf("notional %s, ordered by quantity", e.Notional.Decimal))
	}
	return strings.Join(said, "; ")
}

// Contradicts reports whether there is a [Echo.Contradiction].
func (e Echo) Contradicts(order Order) bool { return e.Contradiction(order) != "" }

func differs(field string, echoed, ordered decimal.NullDecimal) []string {
	if !echoed.Valid || echoed.Decimal.Equal(ordered.Decimal) {
		return nil
	}
	return []string{fmt.Sprintf("%s %s, ordered %s", field, echoed.Decimal, ordered.Decimal)}
}
