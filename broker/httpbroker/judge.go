package httpbroker

import (
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
// (rejected, but something was bought; completed, but nothing was, or more than was
// ordered) is no known word.
func judge(answer *broker.Answer, order order) {
	bought := positive(order.filled) || positive(order.cost)
	switch {
	case order.status == "completed" && order.plausible():
		answer.Verdict, answer.Reason = broker.Accepted, ""
	case order.status == "rejected" && !bought:
		answer.Verdict, answer.Reason, answer.Code = broker.Rejected, "", order.code
	case order.status == "processing":
		answer.Verdict, answer.Reason = broker.Processing, broker.InProcessing
	default:
		answer.Reason = broker.UnconfirmedResponse
	}
}
