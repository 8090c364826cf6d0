package sandbox

import (
	"net/http"
	"time"

	"github.com/shopspring/decimal"
)

// Symbol is a magic symbol: what the sandbox does with an order for it, and how the
// purchase ends when Holdfast runs with its default settings.
type Symbol struct {
	Name string
	Does string
	Ends string

	// first answers the first place under a key, again the later ones while nothing is
	// booked; the zero Act books and confirms.
	first, again Response
	// shape changes what is booked.
	shape func(*order, request)
}

func (s Symbol) act(place int) Response {
	if place <= 1 {
		return s.first
	}
	return s.again
}

var yes, no = true, false

func text(s string) *string { return &s }

func tenths(n int64) decimal.Decimal { return decimal.New(n, -1) }

var whole = decimal.NewFromInt(1)

// Symbols are all magic symbols. Every other symbol is bought at once at its limit.
func Symbols() []Symbol { return append([]Symbol(nil), symbols...) }

var symbols = []Symbol{
	{
		Name:  "TIMEOUT-BOOKED",
		Does:  "books the order and never answers",
		Ends:  "202 after the broker timeout; `COMPLETED` by the first pass's lookup",
		first: Response{Fault: FaultStall},
	}, {
		Name:  "TIMEOUT-LOST",
		Does:  "never answers the first call and books nothing; a replay is booked",
		Ends:  "202 after the broker timeout; `COMPLETED` by a replay, once the settle time is over",
		first: Response{Fault: FaultStall, Book: &no},
	}, {
		Name:  "TIMEOUT-REJECTED",
		Does:  "accepts the order, rejects it (`halted`) and never answers",
		Ends:  "202 after the broker timeout; `REJECTED` by the first pass's lookup",
		first: Response{Fault: FaultStall},
		shape: func(o *order, _ request) { o.reject("halted") },
	}, {
		Name:  "DROP-BOOKED",
		Does:  "books the order and closes the connection without an answer",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: Response{Fault: FaultDrop},
	}, {
		Name:  "DROP-LOST",
		Does:  "closes the connection without an answer and books nothing; a replay is booked",
		Ends:  "202; `COMPLETED` by a replay, once the settle time is over",
		first: Response{Fault: FaultDrop, Book: &no},
	}, {
		Name:  "RESET-BOOKED",
		Does:  "books the order and resets the connection",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: Response{Fault: FaultReset},
	}, {
		Name:  "ERR500",
		Does:  "answers 500 and books nothing; a replay is booked",
		Ends:  "202; `COMPLETED` by a replay, once the settle time is over",
		first: Response{Status: http.StatusInternalServerError},
	}, {
		Name:  "ERR500-BOOKED",
		Does:  "books the order and answers 500",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: Response{Status: http.StatusInternalServerError, Book: &yes},
	}, {
		Name:  "ERR500-FOREVER",
		Does:  "answers every place with 500 and books nothing",
		Ends:  "202; `MANUAL_REVIEW` (`attempts_exhausted`) after 20 passes, about eight hours",
		first: Response{Status: http.StatusInternalServerError},
		again: Response{Status: http.StatusInternalServerError},
	}, {
		Name:  "BUSY",
		Does:  "answers 503 with `Retry-After: 20` and books nothing; a replay is booked",
		Ends:  "202; no pass for 20 s, then `COMPLETED` by a replay",
		first: Response{Status: http.StatusServiceUnavailable, Header: map[string]string{"Retry-After": "20"}},
	}, {
		Name:  "REJECT",
		Does:  "answers 422 `market_closed`",
		Ends:  "422; `REJECTED` (`market_closed`) by the reply",
		first: answer(http.StatusUnprocessableEntity, "market_closed", "the market is closed"),
	}, {
		Name:  "REJECT-2XX",
		Does:  "answers 201 with the status `rejected` (`halted`)",
		Ends:  "422; `REJECTED` (`halted`) by the reply",
		shape: func(o *order, _ request) { o.reject("halted") },
	}, {
		Name:  "REJECT-REPLAY",
		Does:  "drops the first call, books nothing, and answers a replay with 422 `market_closed`",
		Ends:  "202; `REJECTED` (`market_closed`) by the replay and a later lookup that finds nothing",
		first: Response{Fault: FaultDrop, Book: &no},
		again: answer(http.StatusUnprocessableEntity, "market_closed", "the market is closed"),
	}, {
		Name:  "RATE-LIMITED",
		Does:  "answers 429",
		Ends:  "429; `REJECTED` by the reply",
		first: answer(http.StatusTooManyRequests, "too_many_requests", "slow down"),
	}, {
		Name:  "CREDENTIALS",
		Does:  "answers 401",
		Ends:  "422; `REJECTED` by the reply, and an alert",
		first: answer(http.StatusUnauthorized, "bad_token", "who are you?"),
	}, {
		Name:  "DUPLICATE",
		Does:  "books the order and answers 422 `duplicate_order`, as if the key had been used before",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: bookedAnd(answer(http.StatusUnprocessableEntity, "duplicate_order", "the key was used before")),
	}, {
		Name:  "LATE",
		Does:  "books the order and answers after two seconds",
		Ends:  "201 after two seconds; `COMPLETED` by the reply",
		first: Response{Delay: Duration(2 * time.Second)},
	}, {
		Name:  "LAG",
		Does:  "books the order, drops the connection, and shows the order to lookups only after five seconds",
		Ends:  "202; `COMPLETED` by a lookup of a later pass; a first lookup that finds nothing proves nothing yet",
		first: Response{Fault: FaultDrop},
		shape: func(o *order, _ request) { o.Lag = Duration(5 * time.Second) },
	}, {
		Name:  "PROCESSING",
		Does:  "answers 201 `processing`; three seconds later the order is filled",
		Ends:  "202; `COMPLETED` by a lookup",
		shape: func(o *order, _ request) { o.Working = Duration(3 * time.Second) },
	}, {
		Name:  "PROCESSING-FOREVER",
		Does:  "answers 201 `processing` and never fills the order",
		Ends:  "202; `MANUAL_REVIEW` (`attempts_exhausted`) after 20 passes, about eight hours",
		shape: func(o *order, _ request) { o.Working = -1 },
	}, {
		Name:  "REDIRECT",
		Does:  "redirects to itself with 307 and books nothing; a replay is booked",
		Ends:  "202; `COMPLETED` by a replay, once the settle time is over",
		first: Response{Status: http.StatusTemporaryRedirect, Header: map[string]string{"Location": "/v1/orders"}},
	}, {
		Name:  "GARBAGE",
		Does:  "books the order and answers 200 with an HTML page",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: Response{Body: text("<!doctype html><title>OK</title>"), Header: map[string]string{"Content-Type": "text/html"}},
	}, {
		Name:  "CUT",
		Does:  "books the order and sends only half of the answer",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: Response{Fault: FaultCut},
	}, {
		Name:  "MISMATCH",
		Does:  "books the order and answers 201 with another order's key",
		Ends:  "202; `COMPLETED` by the first pass's lookup",
		first: Response{Corrupt: LieKey},
	}, {
		Name:  "WRONG-QUANTITY",
		Does:  "books the order, drops the connection, and answers lookups with another quantity",
		Ends:  "202; `MANUAL_REVIEW` (`mismatch`) by the first pass",
		first: Response{Fault: FaultDrop},
		shape: func(o *order, _ request) { o.Echo = "424242" },
	}, {
		Name:  "PRICE-BELOW-LIMIT",
		Does:  "buys at 90% of the limit",
		Ends:  "201; `COMPLETED` by the reply at the lower cost, the rest is released",
		shape: func(o *order, r request) { o.fill(r, whole, tenths(9)) },
	}, {
		Name:  "PRICE-ABOVE-LIMIT",
		Does:  "buys at 110% of the limit",
		Ends:  "201; `COMPLETED` by the reply at the higher cost, with a note `cost_above_reserved`",
		shape: func(o *order, r request) { o.fill(r, whole, tenths(11)) },
	}, {
		Name:  "PARTIAL",
		Does:  "buys half of the order and no more",
		Ends:  "201; `COMPLETED` by the reply at half the cost, `filled_quantity` half",
		shape: func(o *order, r request) { o.fill(r, tenths(5), whole) },
	}, {
		Name:  "LAG-LOOKUPS",
		Does:  "books the order, drops the connection, and does not find the order in the first two lookups",
		Ends:  "202; `COMPLETED` by a lookup or a replay: two \"not found\" do not count before the settle time",
		first: Response{Fault: FaultDrop},
		shape: func(o *order, _ request) { o.LagLookups = 2 },
	}, {
		Name:  "GATEWAY-404",
		Does:  "books the order and answers 504; for 20 s, every request for it gets a gateway's 404 in HTML",
		Ends:  "202; `COMPLETED` by a lookup once the gateway has recovered: its 404 proves nothing",
		first: Response{Status: http.StatusGatewayTimeout, Book: &yes},
		shape: func(o *order, _ request) { o.Gateway = Duration(20 * time.Second) },
	}, {
		Name:  "WORKING-FILLED",
		Does:  "answers 201 `processing`; three lookups later the order is filled",
		Ends:  "202, `certainty` `working`; `COMPLETED` by the fourth lookup, 5 s apart",
		shape: workingThen(nil),
	}, {
		Name:  "WORKING-CANCELED",
		Does:  "answers 201 `processing`; three lookups later the order is canceled, unfilled",
		Ends:  "202, `certainty` `working`; `REJECTED` (`canceled`) by the fourth lookup",
		shape: workingThen(func(o *order, _ request) { o.reject("canceled") }),
	}, {
		Name:  "WORKING-EXPIRED",
		Does:  "answers 201 `processing`; three lookups later the order has expired, half of it filled",
		Ends:  "202, `certainty` `working`; `COMPLETED` with half the quantity by the fourth lookup",
		shape: workingThen(func(o *order, r request) { o.fill(r, tenths(5), whole) }),
	}, {
		Name:  "SECOND-ORDER",
		Does:  "buys the order, and lists another one under the same key",
		Ends:  "201; `COMPLETED` by the reply; a finding `second_order` by matching the list",
		shape: func(o *order, _ request) { o.Second = true },
	}, {
		Name:  "UNLISTED",
		Does:  "buys the order and leaves it out of the list",
		Ends:  "201; `COMPLETED` by the reply; a finding `completed_but_missing` by matching the list",
		shape: func(o *order, _ request) { o.Unlisted = true },
	}, {
		Name:  "REJECTED-LISTED",
		Does:  "buys the order and answers 422 `market_closed`",
		Ends:  "422; `REJECTED` (`market_closed`) by the reply; a finding `rejected_but_ordered` by matching the list",
		first: bookedAnd(answer(http.StatusUnprocessableEntity, "market_closed", "the market is closed")),
	}, {
		Name:  "LISTED-COST",
		Does:  "buys the order at its limit, and lists it at another cost",
		Ends:  "201; `COMPLETED` by the reply; a finding `cost_differs` by matching the list",
		shape: func(o *order, r request) { o.ListedCost = r.round(r.price().Mul(tenths(8))).String() },
	}, {
		Name: "LISTED-QUANTITY",
		Does: "buys the whole order, and lists half of it as filled",
		Ends: "201; `COMPLETED` by the reply; a finding `quantity_differs` by matching the list",
		shape: func(o *order, r request) {
			if r.Quantity != nil {
				o.ListedFilled = decimal.RequireFromString(*r.Quantity).Mul(tenths(5)).String()
			}
		},
	}, {
		Name:  "BOM",
		Does:  "buys the order; its answers begin with a byte order mark",
		Ends:  "201; `COMPLETED` by the reply",
		shape: func(o *order, _ request) { o.Form = FormMark },
	}, {
		Name: "SPARSE",
		Does: "buys the order; its answers have `\"\"` and `\"0.00\"` for optional amounts, and a duplicate unknown member",
		Ends: "201; `COMPLETED` by the reply",
		shape: func(o *order, _ request) {
			o.Form, o.Cost, o.Filled = FormSparse, "", ""
		},
	},
}

// workingThen makes an order that is processing for three lookups and then ends.
func workingThen(end func(*order, request)) func(*order, request) {
	return func(o *order, r request) {
		o.WorkingLookups = 3
		if end != nil {
			end(o, r)
		}
	}
}

// bookedAnd is the act with the order booked all the same.
func bookedAnd(act Response) Response {
	act.Book = &yes
	return act
}

// scenarioOf finds a symbol's magic; the zero Symbol is a plain purchase.
func scenarioOf(symbol string) Symbol {
	for _, s := range symbols {
		if s.Name == symbol {
			return s
		}
	}
	return Symbol{}
}
