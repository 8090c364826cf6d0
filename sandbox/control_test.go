package sandbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/sandbox"
)

// control makes one call of the control API and returns the status and the body.
func (b bundle) control(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer secret")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestScript(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	status, told := b.control(t, "POST", "/control/script", `{"acts":[
		{"call":"place","status":500,"times":2},
		{"call":"place","status":503,"book":true,"header":{"Retry-After":"9"}},
		{"call":"lookup","fault":"drop"},
		{"call":"place","status":422,"body":"{\"code\":\"no\"}"}]}`)
	if status != 200 {
		t.Fatalf("script: %d %s", status, told)
	}
	var got []string
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		answer := b.place(t, key, order("AAPL"))
		got = append(got, string(answer.Verdict)+" "+string(answer.Reason)+answer.Code+" "+answer.RetryAfter.String())
	}
	want := "uncertain broker_5xx 0s|uncertain broker_5xx 0s|uncertain broker_5xx 9s|rejected no 0s|accepted  0s"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "c"}); found.Reason != broker.ConnectionClosed {
		t.Errorf("scripted lookup: %+v", found)
	}
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "c"}); found.Verdict != broker.Accepted {
		t.Errorf("the 503 did not book: %+v", found)
	}
	for _, bad := range []string{`{"acts":[{"call":"cancel"}]}`, `{"acts":[{"fault":"x"}]}`, `{"acts":[{"status":99}]}`, `{"ac":[]}`, `{"acts":[{"delay":"2h"}]}`, `{"acts":[{"lie":"quantity"}]}`, `{"acts":[{"times":-1}]}`} {
		if status, _ := b.control(t, "POST", "/control/script", bad); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
	b.control(t, "POST", "/control/script", `{"acts":[{"status":500}]}`)
	if status, _ := b.control(t, "DELETE", "/control/script", ""); status != 204 {
		t.Errorf("clear script: %d", status)
	}
	if answer := b.place(t, "f", order("AAPL")); answer.Verdict != broker.Accepted {
		t.Errorf("after the script was cleared: %+v", answer)
	}
}

func (b bundle) mode(t *testing.T, mode string) {
	t.Helper()
	if status, told := b.control(t, "PUT", "/control/mode", mode); status != 200 {
		t.Fatalf("mode %s: %d %s", mode, status, told)
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	b := setup(t, 3*time.Second)
	for mode, reason := range map[string]broker.Reason{
		`{"outage":"drop"}`: broker.ConnectionClosed, `{"outage":"stall"}`: broker.Timeout, `{"outage":"error"}`: broker.Broker5xx,
		`{"delay":"1m"}`: broker.Timeout,
	} {
		b.mode(t, mode)
		if found := b.client.Lookup(t.Context(), broker.Query{Key: "none"}); found.Reason != reason {
			t.Errorf("%s: lookup says %s %s", mode, found.Verdict, found.Reason)
		}
	}
	b.mode(t, `{"outage":"error"}`)
	b.place(t, "down", order("AAPL"))
	b.mode(t, `{}`)
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "down"}); found.Verdict != broker.Absent {
		t.Errorf("an order was booked during the outage: %+v", found)
	}

	b.mode(t, `{"lag":"1h"}`)
	b.place(t, "lag", order("AAPL"))
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "lag"}); found.Verdict != broker.Absent {
		t.Errorf("lag: %+v", found)
	}
	b.mode(t, `{"lie":"key"}`)
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "lag"}); found.Reason != broker.Mismatch {
		t.Errorf("lie about the key: %+v", found)
	}
	b.mode(t, `{"lie":"quantity"}`)
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "lag"}); !found.Echo.Contradicts(order("AAPL")) {
		t.Errorf("lie about the quantity: %+v", found)
	}
	b.mode(t, `{"validate_first":true}`)
	if replay := b.place(t, "lag", order("AAPL")); replay.Code != "market_closed" {
		t.Errorf("validate first: %+v", replay)
	}
	b.mode(t, `{"store_errors":true}`)
	for range 2 {
		if replay := b.place(t, "stored", order("ERR500")); replay.Reason != broker.Broker5xx {
			t.Errorf("stored error: %+v", replay)
		}
	}
	for _, bad := range []string{`{"outage":"x"}`, `{"lie":"x"}`, `{"lag":"-1s"}`, `{"delay":5}`, `[]`} {
		if status, _ := b.control(t, "PUT", "/control/mode", bad); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

func TestLedgerOverTheWire(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	b.place(t, "a", order("AAPL"))
	b.place(t, "b", order("REJECT"))
	b.client.Lookup(t.Context(), broker.Query{Key: "a"})
	_, body := b.control(t, "GET", "/control/ledger?key=a", "")
	var told sandbox.Ledger
	if err := json.Unmarshal([]byte(body), &told); err != nil {
		t.Fatal(err)
	}
	if told.Places != 2 || told.Lookups != 1 || told.Orders != 1 || len(told.Data) != 1 || told.Data[0].Lookups != 1 || told.Data[0].Order.Status != "completed" {
		t.Fatalf("ledger %s", body)
	}
	if status, _ := b.control(t, "DELETE", "/control/ledger", ""); status != 204 {
		t.Fatalf("forget: %d", status)
	}
	if found := b.client.Lookup(t.Context(), broker.Query{Key: "a"}); found.Verdict != broker.Absent {
		t.Fatalf("after forgetting: %+v", found)
	}
}
