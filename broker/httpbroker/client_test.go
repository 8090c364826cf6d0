package httpbroker_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"holdfast/broker"
	"holdfast/broker/brokertest"
	"holdfast/broker/httpbroker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "hf-0198f2c4"

func some(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func shares() broker.Order {
	return broker.Order{Account: "acct-1", Symbol: "AAPL", Currency: "USD", Quantity: some("10"), LimitPrice: some("25.00")}
}

type bundle struct {
	server *brokertest.Server
	client *httpbroker.Client
}

func setup(t *testing.T, timeout time.Duration) bundle {
	t.Helper()
	server := brokertest.NewServer(t)
	client, err := httpbroker.New(httpbroker.Config{
		URL: server.URL() + "/base/", Token: "secret", Timeout: timeout, Idempotent: true,
		DuplicateCodes: []string{" Order_Exists ", ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return bundle{server, client}
}

func (b bundle) place(t *testing.T) broker.Answer {
	t.Helper()
	body, err := b.client.Encode(key, shares())
	if err != nil {
		t.Fatal(err)
	}
	return b.client.Place(t.Context(), broker.Request{Key: key, Body: body})
}

// confirmed is a well-formed 2xx with more members behind the required ones.
func confirmed(more string) string {
	return fmt.Sprintf(`{"order_id":"ord-1","client_order_id":%q,"status":"completed"%s}`, key, more)
}

// want is the part of an answer that a case speaks of.
type want struct {
	evidence    broker.Verdict
	reason      broker.Reason
	code        string
	order       string
	duplicate   bool
	aboutCaller bool
	credentials bool
}

func got(a broker.Answer) want {
	return want{a.Verdict, a.Reason, a.Code, a.OrderID, a.Duplicate, a.AboutCaller, a.CredentialsRefused}
}

var (
	accepted     = want{evidence: broker.Accepted, order: "ord-1"}
	unreadable   = want{evidence: broker.Uncertain, reason: broker.UnreadableResponse}
	closedSocket = want{evidence: broker.Uncertain, reason: broker.ConnectionClosed}
	timedOut     = want{evidence: broker.Uncertain, reason: broker.Timeout}
	redirected   = want{evidence: broker.Uncertain, reason: broker.Redirect}
	failed       = want{evidence: broker.Uncertain, reason: broker.Broker5xx}
	mismatch     = want{evidence: broker.Uncertain, reason: broker.Mismatch}
	unconfirmed  = want{evidence: broker.Uncertain, reason: broker.UnconfirmedResponse, order: "ord-1"}
	processing   = want{evidence: broker.Processing, reason: broker.InProcessing, order: "ord-1"}
)

func rejected(code string) want { return want{evidence: broker.Rejected, code: code} }

func duplicate(code string) want {
	return want{evidence: broker.Uncertain, reason: broker.DuplicateKey, code: code, duplicate: true, aboutCaller: true}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	const refusal = `{"code":"market_closed","message":"come back"}`
	cases := []struct {
		name string
		act  brokertest.Act
		want want
	}{
		{"OK", brokertest.Answer(200, confirmed("")), accepted},
		{"Created", brokertest.Answer(201, confirmed("")), accepted},
		{"Accepted202", brokertest.Answer(202, confirmed("")), accepted},
		{"NoContent", brokertest.Raw("HTTP/1.1 204 No Content\r\n\r\n"), unreadable},
		{"WithoutLength", brokertest.Raw(brokertest.Head(200, -1, "Connection: close") + confirmed("")), accepted},
		{"CutWithoutLength", brokertest.Raw(brokertest.Head(200, -1, "Connection: close") + confirmed("")[:60]), unreadable},
		{"Chunked", brokertest.Raw(chunked(confirmed("")) + "0\r\n\r\n"), accepted},
		{"ChunkedCut", brokertest.Raw(chunked(confirmed(""))), unreadable},
		{"Cut", brokertest.Cut(201, confirmed("")), unreadable},
		{"ResetInBody", brokertest.ResetBody(201, confirmed("")), closedSocket},
		{"StalledBody", brokertest.StallBody(201, confirmed("")), timedOut},
		{"Compressed", brokertest.Answer(200, confirmed(""), "Content-Encoding: gzip"), unreadable},
		{"Identity", brokertest.Answer(200, confirmed(""), "Content-Encoding: identity"), accepted},
		{"Dripped", brokertest.Drip(200, confirmed(""), 10, time.Millisecond), accepted},
		{"DrippedTooSlowly", brokertest.Drip(200, confirmed(""), 50, 200*time.Millisecond), timedOut},

		{"Continue", brokertest.Interim(brokertest.Answer(200, confirmed("")), 100), accepted},
		{"EarlyHints", brokertest.Interim(brokertest.Answer(422, refusal), 103, 100, 103, 103, 103, 103, 103), rejected("market_closed")},
		{"InterimThenSilence", brokertest.Interim(brokertest.Stall(), 103), timedOut},
		{"InterimThenClose", brokertest.Interim(brokertest.Close(), 100), closedSocket},
		{"EndlessInterim", brokertest.Raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 10_000)), unreadable},
		{"SwitchingProtocols", brokertest.Raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + confirmed("")), unreadable},

		{"Found", brokertest.Redirect(302, "/v1/orders", confirmed("")), redirected},
		{"TemporaryRedirect", brokertest.Redirect(307, "/v1/orders", confirmed("")), redirected},
		{"PermanentRedirect", brokertest.Redirect(308, "/v1/orders", confirmed("")), redirected},
		{"NotModified", brokertest.Raw("HTTP/1.1 304 Not Modified\r\n\r\n"), redirected},

		{"InternalError", brokertest.Answer(500, confirmed("")), failed},
		{"BadGateway", brokertest.Answer(502, "<html>"), failed},
		{"StalledError", brokertest.StallBody(503, "{"), failed},
		{"Status600", brokertest.Answer(600, confirmed("")), unreadable},
		{"Status099", brokertest.Raw("HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n"), unreadable},

		{"Close", brokertest.Close(), closedSocket},
		{"Reset", brokertest.Reset(), closedSocket},
		{"Silence", brokertest.Stall(), timedOut},
		{"HalfAStatusLine", brokertest.Raw("HTTP/1.1 4"), unreadable},
		{"HalfARefusal", brokertest.Raw("HTTP/1.1 422 Unprocessable"), closedSocket},
		{"HalfARefusalThenSilence", brokertest.RawThenStall("HTTP/1.1 422 Unprocessable\r"), timedOut},
		{"HalfAHeader", brokertest.Raw("HTTP/1.1 200 OK\r\nContent-Le"), unreadable},
		{"HalfAHeaderThenSilence", brokertest.RawThenStall("HTTP/1.1 200 OK\r\nContent-Le"), timedOut},
		{"HalfAnErrorThenSilence", brokertest.RawThenStall("HTTP/1.1 503 Unavailable\r\nContent-Le"), timedOut},
		{"RefusalInAHeader", brokertest.Raw("HTTP/1.1 103 Early Hints\r\nX: y\r\nHTTP/1.1 422 No\r\n"), unreadable},
		{"RefusalBehindAnAnswer", brokertest.Raw("HTTP/1.1 200 OK\r\nX: y\r\nHTTP/1.1 422 No\r\n"), unreadable},
		{"RefusalBehindNoHTTP", brokertest.Raw("hello\r\nHTTP/1.1 422 No\r\n\r\n"), unreadable},
		{"NoHTTP", brokertest.Raw("SSH-2.0-OpenSSH_9.6\r\n\r\n"), unreadable},
		{"HugeHeader", brokertest.Raw("HTTP/1.1 200 OK\r\nX-Pad: " + strings.Repeat("x", 128<<10) + "\r\n\r\n"), unreadable},
		{"BadLength", brokertest.Raw("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), unreadable},

		{"Refused400", brokertest.Answer(400, refusal), rejected("market_closed")},
		{"Refused404", brokertest.Answer(404, ""), rejected("")},
		{"Refused422", brokertest.Answer(422, refusal), rejected("market_closed")},
		{"RefusedHTML", brokertest.Answer(422, "<html>duplicate</html>"), rejected("")},
		{"RefusedCut", brokertest.Cut(422, refusal[:25]), rejected("market_closed")},
		{"RefusedReset", brokertest.ResetBody(422, refusal[:25]), rejected("market_closed")},
		{"RefusedStalled", brokertest.StallBody(422, `{"co`), rejected("")},
		{"RefusedOversized", brokertest.Answer(422, `{"code":"big","pad":"`+strings.Repeat("x", 2*broker.MaxBody)+`"}`), rejected("big")},
		{"RefusedInvalidUTF8", brokertest.Answer(422, "{\"code\":\"a\xffb\\u0000c\"}"), rejected("a\ufffdb\ufffdc")},
		{"RefusedNumberCode", brokertest.Answer(422, `{"code":40010001}`), rejected("40010001")},
		{"RefusedObjectCode", brokertest.Answer(422, `{"code":{"x":1}}`), rejected("")},
		{"RefusedLongCode", brokertest.Answer(422, `{"code":"`+strings.Repeat("é☃𝄞", 1200)+`"}`), rejected(strings.Repeat("é☃𝄞", 1200))},

		{"RefusedLineThenSilence", brokertest.RawThenStall("HTTP/1.1 422 No\r\n"), rejected("")},
		{"RefusedBareLineThenSilence", brokertest.RawThenStall("HTTP/1.0 400\n"), rejected("")},
		{"RefusedLineThenClose", brokertest.Raw("HTTP/1.1 422 No\r\n"), rejected("")},
		{"RefusedLineThenReset", brokertest.RawThenReset("HTTP/1.1 422 No\r\n"), rejected("")},
		{"RefusedHeaderCut", brokertest.Raw("HTTP/1.1 422 No\r\nContent-Le"), rejected("")},
		{"RefusedHeaderThenSilence", brokertest.RawThenStall("HTTP/1.1 422 No\r\nContent-Le"), rejected("")},
		{"RefusedHeaderMalformed", brokertest.Raw("HTTP/1.1 422 No\r\nno header\r\n\r\n"), rejected("")},
		{"RefusedBadLength", brokertest.Raw("HTTP/1.1 422 No\r\nContent-Length: many\r\n\r\n"), rejected("")},
		{"RefusedTwoLengths", brokertest.Raw("HTTP/1.1 422 No\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), rejected("")},
		{"RefusedStrangeCoding", brokertest.Raw("HTTP/1.1 422 No\r\nTransfer-Encoding: rot13\r\n\r\n"), rejected("")},
		{"RefusedHugeHeader", brokertest.Raw("HTTP/1.1 422 No\r\nX: " + strings.Repeat("x", 128<<10) + "\r\n\r\n"), rejected("")},
		{"RefusedLongReason", brokertest.Raw("HTTP/1.1 422 " + strings.Repeat("x", 8<<10) + "\r\nX"), rejected("")},
		{"InterimThenRefusedThenSilence", brokertest.Interim(brokertest.RawThenStall("HTTP/1.1 422 No\r\nX"), 100, 103), rejected("")},
		{"InterimWithHeadersThenRefused", brokertest.Raw("HTTP/1.1 103 Early Hints\r\nLink: </" + strings.Repeat("x", 5000) + ">\r\nX: y\r\n\r\nHTTP/1.1 404 No\r\nX"), rejected("")},
		{"RequestTimeoutThenSilence", brokertest.RawThenStall("HTTP/1.1 408 Slow\r\n"), want{evidence: broker.Uncertain, reason: broker.Timeout, aboutCaller: true}},
		{"ConflictLineThenSilence", brokertest.RawThenStall("HTTP/1.1 409 Conflict\r\n"), duplicate("")},
		{"UnauthorizedLineThenSilence", brokertest.RawThenStall("HTTP/1.1 401 Who\r\n"), want{evidence: broker.Rejected, aboutCaller: true, credentials: true}},
		{"TooManyRequestsLineThenClose", brokertest.Raw("HTTP/1.1 429 Slow\r\n"), want{evidence: broker.Rejected, aboutCaller: true}},

		{"RequestTimeout", brokertest.Answer(408, refusal), want{evidence: broker.Uncertain, reason: broker.Timeout, code: "market_closed", aboutCaller: true}},
		{"Conflict", brokertest.Answer(409, refusal), duplicate("market_closed")},
		{"DuplicateCode", brokertest.Answer(422, `{"code":"client_order_id_DUPLICATED"}`), duplicate("client_order_id_DUPLICATED")},
		{"EscapedDuplicateCode", brokertest.Answer(400, `{"code":"\u0064uplicate"}`), duplicate("duplicate")},
		{"ListedCode", brokertest.Answer(400, `{"code":"order_exists"}`), duplicate("order_exists")},
		{"NestedDuplicateCode", brokertest.Answer(400, `{"code":"bad","errors":[{"Code":"duplicate_key"}]}`), duplicate("bad")},
		{"SecondDuplicateCode", brokertest.Answer(400, `{"code":"bad","code":"duplicate_key"}`), duplicate("bad")},
		{"DuplicateCodeThenSilence", brokertest.StallBody(422, `{"code":"duplicate_k`), duplicate("")},
		{"LateDuplicateCode", brokertest.Drip(422, `{"code":"duplicate_key"}`, 5, 20*time.Millisecond), duplicate("duplicate_key")},
		{"Unauthorized", brokertest.Answer(401, ""), want{evidence: broker.Rejected, aboutCaller: true, credentials: true}},
		{"Forbidden", brokertest.Answer(403, refusal), want{evidence: broker.Rejected, code: "market_closed", aboutCaller: true}},
		{"ProxyAuthentication", brokertest.Answer(407, ""), want{evidence: broker.Rejected, aboutCaller: true, credentials: true}},
		{"TooEarly", brokertest.Answer(425, ""), want{evidence: broker.Rejected, aboutCaller: true}},
		{"TooManyRequests", brokertest.Answer(429, ""), want{evidence: broker.Rejected, aboutCaller: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, waitFor(c.name, c.want))
			b.server.Script(c.act)
			answer := b.place(t)
			if got(answer) != c.want {
				t.Errorf("got %+v, want %+v\nbody %.200q", got(answer), c.want, answer.Body)
			}
			if read := answer.StatusCode > 0 && answer.StatusCode < 500; answer.Answered != read {
				t.Errorf("answered %v with status %d", answer.Answered, answer.StatusCode)
			}
			if n := len(b.server.Requests()); n != 1 {
				t.Errorf("%d requests on the wire, want 1", n)
			}
		})
	}
}

// waitFor is a timeout that is short only where a case waits for it.
func waitFor(name string, want want) time.Duration {
	if want == timedOut || strings.Contains(name, "Stalled") || strings.Contains(name, "Silence") {
		return 1500 * time.Millisecond
	}
	return 20 * time.Second
}

func chunked(body string) string {
	return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
}

// notFound is the broker's own answer to a lookup of key.
const notFound = `{"code":"order_not_found","client_order_id":"` + key + `"}`

func TestLookup(t *testing.T) {
	t.Parallel()
	absent := want{evidence: broker.Absent}
	refused := want{evidence: broker.Uncertain, reason: broker.Broker4xx}
	credentials := want{evidence: broker.Uncertain, reason: broker.Broker4xx, credentials: true}
	cases := []struct {
		name string
		act  brokertest.Act
		want want
	}{
		{"Found", brokertest.Answer(200, confirmed("")), accepted},
		{"NotFound", brokertest.Answer(404, notFound), absent},
		{"NotFoundWithMore", brokertest.Answer(404, "\ufeff"+strings.Replace(notFound, "{", "{\"message\":\"\\ud800\",\"x\":1,\"x\":2,", 1)), absent},
		{"NotFoundCodeTwice", brokertest.Answer(404, strings.Replace(notFound, "{", `{"code":"order_not_found",`, 1)), refused},
		{"NotFoundWithoutKey", brokertest.Answer(404, `{"code":"order_not_found"}`), refused},
		{"NotFoundOtherKey", brokertest.Answer(404, strings.Replace(notFound, key, key+"x", 1)), refused},
		{"NotFoundOtherCode", brokertest.Answer(404, `{"code":"not_found","client_order_id":"`+key+`"}`), refused},
		{"NotFoundChunkedCut", brokertest.Raw("HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(notFound), notFound)), refused},
		{"NotFoundEmpty", brokertest.Answer(404, ""), refused},
		{"NotFoundHTML", brokertest.Answer(404, "<html>"), refused},
		{"NotFoundCut", brokertest.Cut(404, notFound), refused},
		{"NotFoundLineThenSilence", brokertest.RawThenStall("HTTP/1.1 404 No\r\n"), timedOut},
		{"NotFoundBadLength", brokertest.Raw("HTTP/1.1 404 No\r\nContent-Length: many\r\n\r\n"), unreadable},
		{"Created", brokertest.Answer(201, confirmed("")), want{evidence: broker.Uncertain, reason: broker.UnconfirmedResponse}},
		{"NoContent", brokertest.Raw("HTTP/1.1 204 No Content\r\n\r\n"), want{evidence: broker.Uncertain, reason: broker.UnconfirmedResponse}},
		{"Gone", brokertest.Answer(410, ""), refused},
		{"BadRequest", brokertest.Answer(400, `{"code":"duplicate"}`), refused},
		{"TooManyRequests", brokertest.Answer(429, ""), refused},
		{"RequestTimeout", brokertest.Answer(408, ""), timedOut},
		{"Unauthorized", brokertest.Answer(401, ""), credentials},
		{"Forbidden", brokertest.Answer(403, ""), credentials},
		{"Redirect", brokertest.Redirect(302, "/elsewhere", confirmed("")), redirected},
		{"InternalError", brokertest.Answer(500, ""), failed},
		{"Silence", brokertest.Stall(), timedOut},
		{"Reset", brokertest.Reset(), closedSocket},
		{"StalledBody", brokertest.StallBody(200, confirmed("")), timedOut},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, waitFor(c.name, c.want))
			b.server.Script(c.act)
			if answer := b.client.Lookup(t.Context(), broker.Query{Key: key}); got(answer) != c.want {
				t.Errorf("got %+v, want %+v", got(answer), c.want)
			}
		})
	}
}

func TestWhatIsOnTheWire(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Second)
	b.server.Script(brokertest.Answer(201, confirmed("")), brokertest.Answer(404, ""))
	b.place(t)
	b.client.Lookup(t.Context(), broker.Query{Key: "a/b c?"})
	requests := b.server.Await(t, 2)

	place := requests[0]
	const body = `{"client_order_id":"hf-0198f2c4","account":"acct-1","symbol":"AAPL","side":"buy","quantity":"10","limit_price":"25.00","notional":null,"currency":"USD"}`
	if place.Method != http.MethodPost || place.Path != "/base/v1/orders" || string(place.Body) != body {
		t.Errorf("place: %s %s %s", place.Method, place.Path, place.Body)
	}
	if place.Header.Get("Idempotency-Key") != key || place.Header.Get("Authorization") != "Bearer secret" || place.Header.Get("Content-Type") != "application/json" {
		t.Errorf("place header: %v", place.Header)
	}
	lookup := requests[1]
	if lookup.Method != http.MethodGet || lookup.Path != "/base/v1/orders/by-client-order-id/a%2Fb%20c%3F" {
		t.Errorf("lookup: %s %s", lookup.Method, lookup.Path)
	}
	if lookup.Header.Get("Authorization") != "Bearer secret" || lookup.Header.Get("Idempotency-Key") != "" {
		t.Errorf("lookup header: %v", lookup.Header)
	}
}

func TestEachPlaceHasItsOwnConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, 20*time.Second)
	b.server.Standing(brokertest.Answer(201, confirmed("")))
	b.place(t)
	b.place(t)
	if requests := b.server.Requests(); len(requests) != 2 || requests[0].Conn == requests[1].Conn {
		t.Fatalf("%d requests, on connections %d and %d", len(requests), requests[0].Conn, requests[1].Conn)
	}
}

func TestOneLookupOnAReusedConnection(t *testing.T) {
	t.Parallel()
	b := setup(t, 2*time.Second)
	b.server.Script(brokertest.Answer(200, confirmed("")), brokertest.Close())
	b.server.Standing(brokertest.Answer(200, confirmed("")))
	b.client.Lookup(t.Context(), broker.Query{Key: key})
	found := b.client.Lookup(t.Context(), broker.Query{Key: key})
	requests := b.server.Requests()
	if found.Reason != broker.ConnectionClosed || len(requests) != 2 || requests[1].Conn != 1 {
		t.Fatalf("%s after %d requests", found.Verdict, len(requests))
	}
	if header := requests[0].Header; len(requests[0].Body) > 0 || header.Get("Transfer-Encoding") != "" || header.Get("Content-Length") != "" {
		t.Fatalf("a lookup came with a body: %v", header)
	}
}

func TestNotSent(t *testing.T) {
	t.Parallel()
	server := brokertest.NewServer(t)
	server.Close()
	for name, url := range map[string]string{
		"Refused": server.URL(), "NoSuchHost": "http://broker.invalid",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := httpbroker.New(httpbroker.Config{URL: url, Timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			answer := client.Place(t.Context(), broker.Request{Key: key, Body: []byte("{}")})
			if answer.Verdict != broker.NotSent || answer.Reason != broker.ConnectionFailed || answer.Answered {
				t.Fatalf("got %+v", answer)
			}
		})
	}
}

func TestDeadlineCoversTheWholeExchange(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Minute)
	b.server.Standing(brokertest.Stall())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answer := b.client.Lookup(ctx, broker.Query{Key: key})
	if answer.Reason != broker.Timeout || answer.Duration > 10*time.Second {
		t.Fatalf("got %s after %s", answer.Reason, answer.Duration)
	}
}

func TestRetryAfterIsReadFromAnyAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Second)
	b.server.Standing(brokertest.Answer(503, "", "Retry-After: 7"))
	if placed, found := b.place(t), b.client.Lookup(t.Context(), broker.Query{Key: key}); placed.RetryAfter != 7*time.Second || found.RetryAfter != 7*time.Second {
		t.Fatalf("retry after %s and %s, want 7s", placed.RetryAfter, found.RetryAfter)
	}
}

func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Second)
	b.server.Script(brokertest.Answer(200, confirmed(`,"cost":0.1234567890123456789,"filled_quantity":"1e1","symbol":"AAPL","quantity":10.00,"limit_price":"25"`)))
	answer := b.place(t)
	if answer.Cost.Decimal.String() != "0.1234567890123456789" || answer.FilledQuantity.Decimal.String() != "10" {
		t.Errorf("cost %s, filled %s", answer.Cost.Decimal, answer.FilledQuantity.Decimal)
	}
	if answer.Echo.Contradicts(shares()) {
		t.Error("10.00 at 25 contradicts 10 at 25.00")
	}
}

func TestEncodeGivesEqualBytes(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Second)
	notional := broker.Order{Account: "a", Symbol: "BRK.B", Currency: "JPY", Notional: some("5000")}
	first, err := b.client.Encode(key, notional)
	second, _ := b.client.Encode(key, notional)
	const want = `{"client_order_id":"hf-0198f2c4","account":"a","symbol":"BRK.B","side":"buy","quantity":null,"limit_price":null,"notional":"5000","currency":"JPY"}`
	if err != nil || string(first) != want || string(second) != want {
		t.Fatalf("%v\n%s\n%s", err, first, second)
	}
	if _, err := b.client.Encode("", notional); err == nil {
		t.Fatal("an order without a key was encoded")
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	t.Parallel()
	good := httpbroker.Config{URL: "http://localhost:1", Timeout: time.Second}
	for name, change := range map[string]func(*httpbroker.Config){
		"NoURL":         func(c *httpbroker.Config) { c.URL = "" },
		"OtherScheme":   func(c *httpbroker.Config) { c.URL = "ftp://localhost" },
		"UserInURL":     func(c *httpbroker.Config) { c.URL = "http://me:secret@localhost" },
		"QueryInURL":    func(c *httpbroker.Config) { c.URL = "http://localhost?x=1" },
		"NoTimeout":     func(c *httpbroker.Config) { c.Timeout = 0 },
		"TwoLineToken":  func(c *httpbroker.Config) { c.Token = "a\r\nX: y" },
		"BelowZeroTime": func(c *httpbroker.Config) { c.Settle = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := good
			change(&config)
			if _, err := httpbroker.New(config); err == nil || strings.Contains(err.Error(), "secret") {
				t.Fatalf("err = %v", err)
			}
		})
	}
}
