package httpbroker

import (
	"bytes"
	"encoding/json"
	"testing"

	"holdfast/broker"
	"holdfast/broker/wire"
)

// FuzzConfirm reads arbitrary 2xx bodies: whatever is taken as an outcome must name the
// key in a document that a lax reader understands the same way.
func FuzzConfirm(f *testing.F) {
	for _, seed := range []string{
		`{"order_id":"1","client_order_id":"k","status":"completed","cost":"1.5","filled_quantity":2}`,
		`{"order_id":1,"client_order_id":"k","status":"rejected","code":"no"}`,
		`{"client_order_id":"k","status":"rejected"}`,
		`{"order_id":1,"client_order_id":"k","client_order_id":"x","status":"completed"}`,
		`{"order_id":1,"client_order_id":"x","status":"processing","quantity":-1}`,
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
		if err := json.Unmarshal(bytes.TrimPrefix(body, []byte("\ufeff")), &lax); err != nil {
			t.Fatalf("%q: %s of no JSON: %v", body, answer.Verdict, err)
		}
		word := map[broker.Verdict]string{broker.Accepted: "completed", broker.Rejected: "rejected", broker.Processing: "processing"}
		if lax["client_order_id"] != "k" || lax["status"] != word[answer.Verdict] || (answer.OrderID == "" && answer.Verdict != broker.Rejected) {
			t.Fatalf("%q: %s", body, answer.Verdict)
		}
		if answer.Cost.Valid && answer.Cost.Decimal.IsNegative() {
			t.Fatalf("%q: cost %s", body, answer.Cost.Decimal)
		}
	})
}
