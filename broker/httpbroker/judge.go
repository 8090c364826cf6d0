package httpbroker

import (
	"github.com/go-json-experiment/json/jsontext"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// confirm reads a 2xx. It proves something only if it came whole, is well formed and
// names key; otherwise the answer stays uncertain.
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

// judge decides what the broker's status proves. One that contradicts the order's own
// amounts (rejected, but something was bought; completed, but nothing was, or more than
// was ordered) proves nothing.
func judge(answer *broker.Answer, order order) {
	answer.Verdict, answer.Reason = order.verdict()
	if answer.Verdict == broker.Rejected {
		answer.Code = order.code
	}
}

func (o *order) verdict() (broker.Verdict, broker.Reason) {
	switch {
	case o.status == "completed" && o.plausible():
		return broker.Accepted, ""
	case o.status == "rejected" && !positive(o.filled) && !positive(o.cost):
		return broker.Rejected, ""
	case o.status == "processing":
		return broker.Processing, broker.InProcessing
	}
	return broker.Uncertain, broker.UnconfirmedResponse
}

// absent reports whether a 404 is the broker's own and about key. A gateway's page is not,
// nor is one that names another order.
func absent(reply wire.Reply, key string) bool {
	var code, named jsontext.Value
	if reply.Fault != "" || wire.Object(reply.Body, map[string]*jsontext.Value{"code": &code, "client_order_id": &named}) != nil {
		return false
	}
	return text(code) == "order_not_found" && text(named) == key
}

// text is the value of a well-formed string, empty for anything else.
func text(value jsontext.Value) string {
	read, err := wire.Text(value)
	if err != nil || read == nil {
		return ""
	}
	return *read
}
