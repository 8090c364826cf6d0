package alpaca

import (
	"encoding/json"
	"testing"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// FuzzConfirm reads arbitrary 2xx bodies: whatever is taken as an outcome must name the
// key and an ended order in a document that a lax reader understands the same way.
func FuzzConfirm(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","client_order_id":"k","status":"filled","side":"buy","filled_qty":"1","filled_avg_price":"2.5"}`,
		`{"id":"1","client_order_id":"k","status":"canceled","filled_qty":"0","filled_avg_price":null}`,
		`{"id":"1","client_order_id":"k","status":"new","qty":"1e9"}`,
		`{"id":"1","client_order_id":"x","status":"filled"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := broker.Answer{Verdict: broker.Uncertain, Reason: broker.UnreadableResponse}
		confirm(&answer, wire.Reply{Status: 200, Body: body}, "k")
		if answer.Verdict == broker.Uncertain {
			return
		}
		var lax map[string]any
		if err := json.Unmarshal(body, &lax); err != nil {
			t.Fatalf("%q: %s of no JSON: %v", body, answer.Verdict, err)
		}
		status, _ := lax["status"].(string)
		if lax["client_order_id"] != "k" || answer.OrderID == "" {
			t.Fatalf("%q: %s", body, answer.Verdict)
		}
		if final := answer.Verdict != broker.Processing; final != ended[status] {
			t.Fatalf("%q: %s", body, answer.Verdict)
		}
		if answer.Verdict == broker.Accepted && !answer.Cost.Decimal.IsPositive() {
			t.Fatalf("%q: bought for %s", body, answer.Cost.Decimal)
		}
	})
}
