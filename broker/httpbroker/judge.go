package httpbroker

import (
	"net/http"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// confirm reads a 2xx. It proves something only where it came whole, is well formed and
// names key; whatever is wrong with it leaves the answer uncertain.
func confirm(answer *broker.Answer, reply wire.Reply, key string) {
	if reply.Fault != "" {
		answer.Reason = reply.Fault
		return
	}
	order, err := readOrder(reply.Body)
	switch {
	case order.key != "" && order.key != key:
		answer.Reason = broker.Mismatch
		return
	case err != nil || order.key == "":
		answer.Reason = broker.UnreadableResponse
		return
	}
	answer.OrderID, answer.Cost, answer.FilledQuantity, answer.Echo = order.id, order.cost, order.filled, order.echo
	judge(answer, order)
}

// judge says what the broker's word proves. A word that contradicts its own amounts
// (rejected, but something was bought; completed, but nothing was) is no known word.
func judge(answer *broker.Answer, order order) {
	bought := positive(order.filled) || positive(order.cost)
	nothing := order.filled.Valid && order.filled.Decimal.IsZero()
	switch {
	case order.status == "completed" && !nothing:
		answer.Evidence, answer.Reason = broker.Accepted, ""
	case order.status == "rejected" && !bought:
		answer.Evidence, answer.Reason, answer.Code = broker.Rejected, "", order.code
	case order.status == "processing":
		answer.Evidence, answer.Reason = broker.Processing, broker.InProcessing
	default:
		answer.Reason = broker.UnconfirmedResponse
	}
}

// refuse reads a 4xx of a place call: a rejection by its status line alone, but for
// those that speak of the key or of the exchange itself.
func (c *Client) refuse(answer *broker.Answer, reply wire.Reply) {
	codes := wire.ReadCodes(reply.Body)
	answer.Code = codes.Top
	answer.CredentialsRefused = refusesCredentials(reply.Status)
	answer.AboutCaller = aboutCaller(reply.Status)
	switch {
	case reply.SaysDuplicate(codes, c.duplicates), reply.Status == http.StatusConflict:
		answer.Duplicate, answer.AboutCaller = true, true
		answer.Reason = broker.DuplicateKey
	case reply.Status == http.StatusRequestTimeout:
		answer.Reason = broker.Timeout
	default:
		answer.Evidence, answer.Reason = broker.Rejected, ""
	}
}

// refusesCredentials leaves 403 out: of a place call it may speak of the order as well.
func refusesCredentials(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusProxyAuthRequired
}

// aboutCaller names the refusals that say nothing about the order: who we are, how
// fast we are, or that the broker is at work on this key.
func aboutCaller(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}
