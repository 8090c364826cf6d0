package brokertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
)

// row is one answer and what it proves.
type row struct {
	name     string
	act      Act
	evidence broker.Verdict
	reason   broker.Reason
}

// nothing are the answers that prove nothing, to a place or to a lookup.
func (d Dialect) nothing() []row {
	completed := d.Completed(theKey, d.Order)
	unreadable := func(name string, act Act) row { return row{name, act, broker.Uncertain, broker.UnreadableResponse} }
	closed := func(name string, act Act) row { return row{name, act, broker.Uncertain, broker.ConnectionClosed} }
	timeout := func(name string, act Act) row { return row{name, act, broker.Uncertain, broker.Timeout} }
	return []row{
		unreadable("Empty", Answer(200, "")),
		unreadable("HTML", Answer(200, "<html>OK</html>")),
		unreadable("Null", Answer(200, "null")),
		unreadable("List", Answer(200, "["+completed+"]")),
		unreadable("TrailingGarbage", Answer(200, completed+"}")),
		unreadable("Twice", Answer(200, completed+completed)),
		unreadable("MarkTwice", Answer(200, "\ufeff\ufeff"+completed)),
		unreadable("Oversized", Answer(200, completed+strings.Repeat(" ", broker.MaxBody))),
		unreadable("Compressed", Answer(200, completed, "Content-Encoding: gzip")),
		unreadable("Cut", Cut(200, completed)),
		unreadable("NoHTTP", Raw("220 mail.example ESMTP\r\n")),
		unreadable("EndlessHeader", Raw("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")),
		unreadable("EndlessInterim", Raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 10_000))),
		unreadable("SwitchingProtocols", Raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"+completed)),
		{"OtherKey", Answer(200, d.Completed("hf-other-key", d.Order)), broker.Uncertain, broker.Mismatch},
		{"StrangeWord", Answer(200, d.Strange(theKey, d.Order)), broker.Uncertain, broker.UnconfirmedResponse},
		{"InternalError", Answer(500, completed), broker.Uncertain, broker.Broker5xx},
		{"BadGateway", Answer(502, "<html>"), broker.Uncertain, broker.Broker5xx},
		{"Unavailable", Answer(503, d.Refusal), broker.Uncertain, broker.Broker5xx},
		{"NotModified", Raw("HTTP/1.1 304 Not Modified\r\n\r\n"), broker.Uncertain, broker.Redirect},
		closed("Close", Close()),
		closed("Reset", Reset()),
		closed("ResetInBody", ResetBody(200, completed)),
		closed("InterimThenClose", Interim(Close(), 103)),
		timeout("Silence", Stall()),
		timeout("StalledHeader", RawThenStall("HTTP/1.1 200 OK\r\nX: ")),
		timeout("StalledBody", StallBody(200, completed)),
		timeout("InterimThenSilence", Interim(Stall(), 100, 103)),
		timeout("RequestTimeout", Answer(408, d.Refusal)),
	}
}

// found are the 2xx that prove something, to a place or to a lookup.
func (d Dialect) found() []row {
	completed := d.Completed(theKey, d.Order)
	with := func(member string) Act { return Answer(200, strings.Replace(completed, "{", "{"+member+",", 1)) }
	rows := []row{
		{"Completed", Answer(200, completed), broker.Accepted, ""},
		{"ByteOrderMark", Answer(200, "\ufeff"+completed), broker.Accepted, ""},
		{"UnknownMemberTwice", with(`"x":1,"x":{"y":2}`), broker.Accepted, ""},
		{"UnknownMemberNotUTF8", with("\"x\xff\":\"\xff\""), broker.Accepted, ""},
		{"HalfASurrogatePair", with(`"message":"\ud83d"`), broker.Accepted, ""},
		{"Dripped", Drip(200, completed, 5, time.Millisecond), broker.Accepted, ""},
		{"Interim", Interim(Answer(200, completed), 100, 103, 103), broker.Accepted, ""},
		{"Rejected", Answer(200, d.Rejected(theKey, d.Order)), broker.Rejected, ""},
		{"Processing", Answer(200, d.Processing(theKey, d.Order)), broker.Processing, broker.InProcessing},
	}
	for i, terse := range d.Terse {
		rows = append(rows, row{fmt.Sprintf("Terse%d", i+1), Answer(200, terse(theKey, d.Order)), broker.Accepted, ""})
	}
	return rows
}

func exerciseFirstCall(t *testing.T, d Dialect) {
	rejected := func(name string, act Act) row { return row{name, act, broker.Rejected, ""} }
	rows := append(append(d.nothing(), d.found()...),
		rejected("Refused400", Answer(400, d.Refusal)),
		rejected("Refused404", Answer(404, d.Refusal)),
		rejected("Refused422", Answer(422, d.Refusal)),
		rejected("Refused451", Answer(451, "")),
		rejected("RefusedHTML", Answer(422, "<html>no</html>")),
		rejected("RefusedCut", Cut(422, `{"x`)),
		rejected("RefusedStalled", StallBody(422, `{"x`)),
		rejected("RefusedReset", ResetBody(422, `{"x`)),
		rejected("RefusedHeaderStalled", RawThenStall("HTTP/1.1 422 No\r\nX: ")),
		rejected("RefusedLineStalled", Interim(RawThenStall("HTTP/1.1 422 No\r\n"), 100, 103)),
		rejected("RefusedHeaderCut", Raw("HTTP/1.1 422 No\r\nX: ")),
		rejected("RefusedHeaderReset", RawThenReset("HTTP/1.1 422 No\r\nX: ")),
		rejected("RefusedHeaderMalformed", Raw("HTTP/1.1 422 No\r\nno header\r\n\r\n")),
		row{"HalfARefusal", RawThenStall("HTTP/1.1 422 No"), broker.Uncertain, broker.Timeout},
		rejected("Unauthorized", Answer(401, "")),
		rejected("Forbidden", Answer(403, d.Refusal)),
		rejected("ProxyAuthentication", Answer(407, "")),
		rejected("TooEarly", Answer(425, "")),
		rejected("TooManyRequests", Answer(429, "")),
		row{"Conflict", Answer(409, d.Refusal), broker.Uncertain, broker.DuplicateKey},
		row{"DuplicateKey", Answer(d.DuplicateStatus, d.Duplicate), broker.Uncertain, broker.DuplicateKey},
		row{"DuplicateKeySlowly", Drip(d.DuplicateStatus, d.Duplicate, 4, 10*time.Millisecond), broker.Uncertain, broker.DuplicateKey},
	)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := d.setup(t, row.timeout())
			b.server.Script(row.act)
			answer := b.place(t, theKey)
			row.check(t, answer)
			checkPlace(t, d, row, answer)
			if n := len(b.server.Requests()); n != 1 {
				t.Errorf("%d requests on the wire, want 1", n)
			}
		})
	}
}

// aboutCaller are the statuses that never speak of the order.
var aboutCaller = map[int]bool{401: true, 403: true, 407: true, 408: true, 409: true, 425: true, 429: true}

func checkPlace(t *testing.T, d Dialect, row row, answer broker.Answer) {
	t.Helper()
	if duplicate := row.reason == broker.DuplicateKey; answer.Duplicate != duplicate {
		t.Errorf("duplicate %v, want %v", answer.Duplicate, duplicate)
	}
	if want := aboutCaller[answer.StatusCode] || answer.Duplicate; answer.AboutCaller != want {
		t.Errorf("about the caller %v, want %v", answer.AboutCaller, want)
	}
	if want := answer.StatusCode == 401 || answer.StatusCode == 407; answer.CredentialsRefused != want {
		t.Errorf("credentials refused %v, want %v", answer.CredentialsRefused, want)
	}
	if strings.HasPrefix(row.name, "Refused4") && row.name != "Refused451" && answer.Code != d.RefusalCode {
		t.Errorf("code %q, want %q", answer.Code, d.RefusalCode)
	}
	if want := row.name == "Refused400" || row.name == "Refused404" || row.name == "Refused422"; want && !answer.BrokerRefusal {
		t.Error("the broker's own refusal is not reported as such")
	}
	if gateway := strings.HasPrefix(row.name, "Refused") && answer.Code == ""; gateway && answer.BrokerRefusal {
		t.Error("a gateway's answer is reported as the broker's own refusal")
	}
	if row.evidence == broker.Accepted && answer.OrderID == "" {
		t.Error("accepted without an order id")
	}
}

func exerciseLookup(t *testing.T, d Dialect) {
	refused := func(name string, status int) row {
		return row{name, Answer(status, d.Refusal), broker.Uncertain, broker.Broker4xx}
	}
	rows := append(append(d.nothing(), d.found()...),
		row{"NotFound", Answer(404, d.NotFound(theKey)), broker.Absent, ""},
		row{"NotFoundByteOrderMark", Answer(404, "\ufeff"+d.NotFound(theKey)), broker.Absent, ""},
		row{"NotFoundOtherKey", Answer(404, d.NotFound("hf-other-key")), broker.Uncertain, broker.Broker4xx},
		row{"NotFoundCut", Cut(404, d.NotFound(theKey)), broker.Uncertain, broker.Broker4xx},
		row{"NotFoundStalled", StallBody(404, d.NotFound(theKey)), broker.Uncertain, broker.Broker4xx},
		row{"GatewayEmpty", Answer(404, ""), broker.Uncertain, broker.Broker4xx},
		row{"GatewayHTML", Answer(404, "<html>not found</html>", "Server: gateway"), broker.Uncertain, broker.Broker4xx},
		row{"GatewayJSON", Answer(404, `{"error":"no route"}`), broker.Uncertain, broker.Broker4xx},
		row{"GatewayCode", Answer(404, `{"code":"not_found","message":"no route"}`), broker.Uncertain, broker.Broker4xx},
		row{"Gateway410", Answer(410, d.NotFound(theKey)), broker.Uncertain, broker.Broker4xx},
		row{"NotFoundHeaderStalled", RawThenStall("HTTP/1.1 404 No\r\nX: "), broker.Uncertain, broker.Timeout},
		row{"NotFoundBadLength", Raw("HTTP/1.1 404 No\r\nContent-Length: x\r\n\r\n"), broker.Uncertain, broker.UnreadableResponse},
		row{"Created", Answer(201, d.Completed(theKey, d.Order)), broker.Uncertain, broker.UnconfirmedResponse},
		row{"Accepted202", Answer(202, d.Rejected(theKey, d.Order)), broker.Uncertain, broker.UnconfirmedResponse},
		row{"NoContent", Raw("HTTP/1.1 204 No Content\r\n\r\n"), broker.Uncertain, broker.UnconfirmedResponse},
		refused("BadRequest", 400), refused("Unauthorized", 401), refused("Forbidden", 403),
		refused("ProxyAuthentication", 407), refused("Conflict", 409), refused("Gone", 410),
		refused("Unprocessable", 422), refused("TooEarly", 425), refused("TooManyRequests", 429),
	)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := d.setup(t, row.timeout())
			b.server.Script(row.act)
			answer := b.lookup(t)
			row.check(t, answer)
			if want := answer.StatusCode == 401 || answer.StatusCode == 403 || answer.StatusCode == 407; answer.CredentialsRefused != want {
				t.Errorf("credentials refused %v, want %v", answer.CredentialsRefused, want)
			}
		})
	}
}

// timeout is short only where the row waits for it.
func (r row) timeout() time.Duration {
	switch {
	case r.name == "RequestTimeout":
		return patient
	case r.reason == broker.Timeout:
		return quick
	case strings.HasSuffix(r.name, "Stalled"):
		return slow
	}
	return patient
}

func (r row) check(t *testing.T, answer broker.Answer) {
	t.Helper()
	if answer.Verdict != r.evidence || answer.Reason != r.reason {
		t.Errorf("proves %s %s, want %s %s (status %d, body %.200q)", answer.Verdict, answer.Reason, r.evidence, r.reason, answer.StatusCode, answer.Body)
	}
	if there := answer.StatusCode > 0 && answer.StatusCode < 500; answer.Answered != there {
		t.Errorf("answered %v with status %d", answer.Answered, answer.StatusCode)
	}
	if len(answer.Body) > broker.MaxBody || answer.Duration <= 0 {
		t.Errorf("%d bytes kept, duration %s", len(answer.Body), answer.Duration)
	}
}
