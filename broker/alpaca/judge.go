package alpaca

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// confirm reads a 2xx: an order that names key proves what its status says.
func confirm(answer *broker.Answer, reply wire.Reply, key string) {
	if reply.Fault != "" {
		answer.Reason = reply.Fault
		return
	}
	order, err := readOrder(reply.Body)
	switch {
	case order.key != "" && order.key != key, order.side != "" && order.side != "buy":
		answer.Reason = broker.Mismatch
		return
	case err != nil || order.key == "":
		answer.Reason = broker.UnreadableResponse
		return
	}
	answer.OrderID, answer.Echo = order.id, order.echo
	judge(answer, order)
}

// judge decides what an order's status proves: one that has ended counts for what was
// filled; one that has not ended counts for nothing yet, however much of it is filled.
func judge(answer *broker.Answer, order order) {
	answer.Reason = broker.UnconfirmedResponse
	switch {
	case working[order.status]:
		answer.Verdict, answer.Reason = broker.Processing, broker.InProcessing
	case !ended[order.status]:
		// "replaced" and unknown statuses: an operator must decide.
	case order.bought():
		answer.Verdict, answer.Reason = broker.Accepted, ""
		answer.FilledQuantity = order.filled
		answer.Cost = decimal.NewNullDecimal(order.filled.Decimal.Mul(order.price.Decimal))
	case order.status != "filled" && order.nothing():
		answer.Verdict, answer.Reason, answer.Code = broker.Rejected, "", order.status
	}
}

// working are the statuses of an order that may still be filled or that Alpaca has not
// finished counting.
var working = map[string]bool{
	"new": true, "accepted": true, "pending_new": true, "accepted_for_bidding": true,
	"partially_filled": true, "done_for_day": true, "calculated": true, "held": true,
	"stopped": true, "suspended": true, "pending_cancel": true, "pending_replace": true,
	"pending_review": true,
}

// ended are the statuses after which, as Alpaca says, no further updates will occur.
var ended = map[string]bool{"filled": true, "canceled": true, "expired": true, "rejected": true}

// bought reports whether the order says what was filled and at which price, and not more
// than was ordered.
func (o order) bought() bool {
	if o.echo.Quantity.Valid && o.filled.Decimal.GreaterThan(o.echo.Quantity.Decimal) {
		return false
	}
	return o.filled.Valid && o.filled.Decimal.IsPositive() && o.price.Valid && o.price.Decimal.IsPositive()
}

// nothing reports whether the order says that nothing was filled. Silence does not.
func (o order) nothing() bool {
	return o.filled.Valid && o.filled.Decimal.IsZero()
}

// notFound is how Alpaca says that there is no order: its code of every "not found", and a
// message that says what was not found (also an account or an asset), mostly with its name.
var notFound = regexp.MustCompile(`(?i)^order not found(?: for (.+?))?\.?$`)

const codeNotFound = "40410000"

// absent reports whether a 404 is Alpaca's own and about the order under key.
func absent(reply wire.Reply, key string) bool {
	var code, message jsontext.Value
	fields := map[string]*jsontext.Value{"code": &code, "message": &message}
	if reply.Fault != "" || wire.Object(reply.Body, fields) != nil || wire.Scalar(code) != codeNotFound {
		return false
	}
	said := notFound.FindStringSubmatch(wire.Scalar(message))
	return said != nil && (said[1] == "" || said[1] == key)
}

// unique is how Alpaca says that a client order id was used before. Its code,
// 40010001, says no more than that a parameter is wrong; the words vary.
var unique = regexp.MustCompile(`(?i)client[ _-]?order[ _-]?id (must be unique|already exists)`)

func saysDuplicate(reply wire.Reply) bool {
	codes := wire.ReadCodes(reply.Body)
	return unique.Match(reply.Body) || reply.SaysDuplicate(codes, nil)
}

// rateReset is the wait until the rate limit is lifted, where the answer says that it
// is used up: Alpaca gives the time of the reset in epoch seconds, and no Retry-After.
func rateReset(reply wire.Reply, now time.Time) time.Duration {
	if reply.Status != http.StatusTooManyRequests && reply.Header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	seconds, err := strconv.ParseInt(reply.Header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil {
		return 0
	}
	// The limit is one of calls a minute: a reset further away is no reset.
	return min(max(time.Unix(seconds, 0).Sub(now), 0), maxReset)
}

// maxReset bounds what a skewed clock can make of a reset.
const maxReset = 5 * time.Minute
