package httpbroker_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/brokertest"
)

// successes are the bodies of a 2xx, read alike on a first call, a replay and a lookup.
var successes = []struct {
	name string
	body string
	want want
}{
	{"Completed", confirmed(""), accepted},
	{"SpaceAround", " \n" + confirmed("") + "\r\n ", accepted},
	{"UnknownMembers", confirmed(`,"more":[{"deep":null}]`), accepted},
	{"EscapedNames", `{"order\u005fid":"ord-1","client_order_id":"` + key + `","status":"complet\u0065d"}`, accepted},
	{"Amounts", confirmed(`,"cost":"249.9","filled_quantity":10,"symbol":"AAPL","quantity":"10.0","limit_price":25,"notional":null`), accepted},
	{"Processing", strings.Replace(confirmed(""), "completed", "processing", 1), processing},
	{"OtherWord", strings.Replace(confirmed(""), "completed", "accepted", 1), unconfirmed},
	{"OtherCase", strings.Replace(confirmed(""), "completed", "COMPLETED", 1), unconfirmed},
	{"NoWord", `{"order_id":"ord-1","client_order_id":"` + key + `"}`, unconfirmed},
	{"NullWord", `{"order_id":"ord-1","client_order_id":"` + key + `","status":null}`, unconfirmed},
	{"NumberForWord", `{"order_id":"ord-1","client_order_id":"` + key + `","status":1}`, unreadable},
	{"CompletedWithNothingFilled", confirmed(`,"filled_quantity":"0"`), unconfirmed},
	{"MoreFilledThanOrdered", confirmed(`,"filled_quantity":"11","quantity":"10"`), unconfirmed},
	{"RejectedThoughFilled", strings.Replace(confirmed(`,"filled_quantity":"3"`), "completed", "rejected", 1), unconfirmed},
	{"RejectedThoughPaid", strings.Replace(confirmed(`,"cost":"3"`), "completed", "rejected", 1), unconfirmed},
	{"Rejected", strings.Replace(confirmed(`,"code":"halted","message":"no"`), "completed", "rejected", 1), want{evidence: broker.Rejected, code: "halted", order: "ord-1"}},
	{"RejectedWithoutCode", strings.Replace(confirmed(""), "completed", "rejected", 1), want{evidence: broker.Rejected, order: "ord-1"}},
	{"OtherKey", strings.Replace(confirmed(""), key, key+"0", 1), mismatch},
	{"OtherKeyAndNoOrder", `{"client_order_id":"x","status":"completed"}`, mismatch},
	{"NoKey", `{"order_id":"ord-1","status":"completed"}`, unreadable},
	{"NullKey", `{"order_id":"ord-1","client_order_id":null,"status":"completed"}`, unreadable},
	{"NumberForKey", `{"order_id":"ord-1","client_order_id":5,"status":"completed"}`, unreadable},
	{"NoOrder", `{"client_order_id":"` + key + `","status":"completed"}`, unreadable},
	{"ProcessingWithoutOrder", `{"client_order_id":"` + key + `","status":"processing"}`, unreadable},
	{"RejectedWithoutOrder", `{"client_order_id":"` + key + `","status":"rejected","code":"halted"}`, rejected("halted")},
	{"RejectedWithNullOrder", `{"order_id":null,"client_order_id":"` + key + `","status":"rejected"}`, rejected("")},
	{"RejectedWithEmptyOrder", `{"order_id":"","client_order_id":"` + key + `","status":"rejected"}`, rejected("")},
	{"RejectedWithObjectForOrder", `{"order_id":{},"client_order_id":"` + key + `","status":"rejected"}`, unreadable},
	{"RejectedOtherKeyWithoutOrder", `{"client_order_id":"x","status":"rejected"}`, mismatch},
	{"RejectedThoughFilledWithoutOrder", `{"client_order_id":"` + key + `","status":"rejected","filled_quantity":1}`, want{evidence: broker.Uncertain, reason: broker.UnconfirmedResponse}},
	{"EmptyOrder", strings.Replace(confirmed(""), "ord-1", "", 1), unreadable},
	{"ObjectForOrder", strings.Replace(confirmed(""), `"ord-1"`, "{}", 1), unreadable},
	{"FractionForOrder", strings.Replace(confirmed(""), `"ord-1"`, "1.5", 1), unreadable},
	{"NulInOrder", strings.Replace(confirmed(""), "ord-1", `ord\u0000`, 1), unreadable},
	{"EndlessOrder", strings.Replace(confirmed(""), "ord-1", strings.Repeat("7", 64<<10+1), 1), unreadable},
	{"NumberOrder", strings.Replace(confirmed(""), `"ord-1"`, "8389765929445198309", 1), want{evidence: broker.Accepted, order: "8389765929445198309"}},
	{"LongNumberOrder", strings.Replace(confirmed(""), `"ord-1"`, strings.Repeat("9", 300), 1), want{evidence: broker.Accepted, order: strings.Repeat("9", 300)}},
	{"NegativeCost", confirmed(`,"cost":"-1"`), unreadable},
	{"NaNCost", confirmed(`,"cost":"NaN"`), unreadable},
	{"BareNaNCost", confirmed(`,"cost":NaN`), unreadable},
	{"ExplosiveCost", confirmed(`,"cost":1e999999999`), unreadable},
	{"HexCost", confirmed(`,"cost":"0x10"`), unreadable},
	{"EmptyCost", confirmed(`,"cost":""`), accepted},
	{"BlankCost", confirmed(`,"cost":" "`), unreadable},
	{"EmptyAmounts", confirmed(`,"cost":"","filled_quantity":"","quantity":"","limit_price":"","notional":""`), accepted},
	{"ZeroEchoes", confirmed(`,"quantity":0,"limit_price":"0.00","notional":"0.00"`), accepted},
	{"ObjectCost", confirmed(`,"cost":{"amount":1}`), unreadable},
	{"NegativeEcho", confirmed(`,"quantity":-10`), unreadable},
	{"NumberForSymbol", confirmed(`,"symbol":7`), unreadable},
	{"Empty", "", unreadable},
	{"Null", "null", unreadable},
	{"Array", "[" + confirmed("") + "]", unreadable},
	{"HTML", "<html>OK</html>", unreadable},
	{"TrailingGarbage", confirmed("") + "x", unreadable},
	{"TwoDocuments", confirmed("") + confirmed(""), unreadable},
	{"NameTwice", confirmed(`,"status":"rejected"`), unreadable},
	{"EscapedNameTwice", confirmed(`,"stat\u0075s":"completed"`), unreadable},
	{"CodeTwice", confirmed(`,"code":"a","code":"a"`), unreadable},
	{"NumberForCode", confirmed(`,"code":7`), unreadable},
	{"InvalidUTF8Code", confirmed(",\"code\":\"\xff\""), unreadable},
	{"InvalidUTF8Key", strings.Replace(confirmed(""), key, key+"\xff", 1), unreadable},
	{"HalfASurrogatePairInStatus", strings.Replace(confirmed(""), "completed", `completed\ud800`, 1), unreadable},
	{"MessageTwice", confirmed(`,"message":"a","message":7`), accepted},
	{"HalfASurrogatePairInMessage", confirmed(`,"message":"\ud83d"`), accepted},
	{"InvalidUTF8Message", confirmed(",\"message\":\"\xff\""), accepted},
	{"UnknownTwice", confirmed(`,"x":1,"x":{"status":"rejected","status":1}`), accepted},
	{"UnknownInvalidUTF8", confirmed(",\"note\xff\":\"\xff\""), accepted},
	{"ByteOrderMark", "\ufeff" + confirmed(""), accepted},
	{"ByteOrderMarkBehind", confirmed("") + "\ufeff", unreadable},
	{"DeepNesting", confirmed(`,"deep":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)), unreadable},
	{"HalfADocument", confirmed("")[:40], unreadable},
	{"Oversized", confirmed(`,"pad":"` + strings.Repeat("x", broker.MaxBody) + `"`), unreadable},
	{"LargestAllowed", confirmed(`,"pad":"` + strings.Repeat("x", broker.MaxBody-len(confirmed(`,"pad":""`))) + `"`), accepted},
}

func TestSuccessProvesOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	for _, c := range successes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 10*time.Second)
			b.server.Script(brokertest.Answer(201, c.body), brokertest.Answer(200, c.body))
			placed := b.place(t)
			found := b.client.Lookup(t.Context(), broker.Query{Key: key})
			for call, answer := range map[string]broker.Answer{"place": placed, "lookup": found} {
				if got(answer) != c.want {
					t.Errorf("%s: got %+v, want %+v", call, got(answer), c.want)
				}
				if !answer.Answered || answer.Duration <= 0 || len(answer.Body) > broker.MaxBody {
					t.Errorf("%s: answered %v in %s, %d bytes kept", call, answer.Answered, answer.Duration, len(answer.Body))
				}
			}
		})
	}
}
