package api_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/api"
	"holdfast/auth"
)

const eventsPath = "/v1/broker-events"

func (w *world) report(key string, body any, header http.Header) *answer {
	w.t.Helper()
	return w.do(request{method: "POST", path: eventsPath, key: key, body: body, header: header})
}

// secondsToRetry is how far ahead the next pass of an UNKNOWN purchase is.
func (w *world) secondsToRetry(id string) int {
	w.t.Helper()
	return w.count("SELECT EXTRACT(EPOCH FROM next_retry - now())::integer FROM transaction_history WHERE id = $1", id)
}

// A purchase whose answer was lost, and whose first pass found nothing out, waits for its
// backoff; the broker's event makes it due now, once, with a job that runs now.
func TestBrokerEventMakesThePurchaseDue(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.key(auth.ScopeBroker, "")
	id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
	w.exec("UPDATE transaction_history SET next_retry = now() + interval '20 minutes' WHERE id = $1", id)
	w.exec("UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '20 minutes' WHERE args->>'transaction_id' = $1", id)
	event := fields{"client_order_id": w.brokerKey(id)}
	for range 2 {
		if a := w.report(key, event, nil).wantStatus(202); len(a.body) > 0 {
			t.Errorf("answer has a body: %s", a.body)
		}
	}
	if n := w.secondsToRetry(id); n > 0 {
		t.Errorf("due in %d s, want now", n)
	}
	if n := w.count(`SELECT count(*) FROM river_job WHERE args->>'transaction_id' = $1 AND state = 'available' AND scheduled_at <= now()`, id); n != 1 {
		t.Errorf("%d jobs run now, want 1", n)
	}
	if n := strings.Count(string(w.get("/v1/purchases/"+id+"/history", w.client).body), `"broker_event"`); n != 1 {
		t.Errorf("history has %d notes, want 1: an event of a purchase already due changes nothing", n)
	}
	w.get("/v1/purchases/"+id, w.client).wantText("status", "UNKNOWN")
	if _, err := w.service.Pass(t.Context(), uuid.MustParse(id), 0); err != nil {
		t.Fatal(err)
	}
	w.get("/v1/purchases/"+id, w.client).wantText("status", "COMPLETED").wantText("evidence", "lookup")
}

// An event that arrives while a pass is in flight may be newer than the pass's answer.
func TestBrokerEventDuringAPass(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.key(auth.ScopeBroker, "")
	id := w.buy(order(fields{"symbol": "PROCESSING-FOREVER"})).wantStatus(202).text("id")
	brokerKey := w.brokerKey(id)
	w.called = func() { w.report(key, fields{"client_order_id": brokerKey}, nil).wantStatus(202) }
	w.pass(id)
	w.called = func() {}
	if n := w.secondsToRetry(id); n > 0 {
		t.Errorf("due in %d s after the pass, want now", n)
	}
	w.pass(id)
	if n := w.secondsToRetry(id); n <= 0 {
		t.Error("due at once after a pass without an event")
	}
}

// An event proves nothing, and nothing else follows from it.
func TestBrokerEventOfOtherPurchases(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.key(auth.ScopeBroker, "")
	review := w.review()
	for name, id := range map[string]string{
		"Completed": w.buy(order(nil)).wantStatus(201).text("id"),
		"Review":    review,
	} {
		before := w.get("/v1/purchases/"+id, w.client)
		w.report(key, fields{"client_order_id": w.brokerKey(id)}, nil).wantStatus(202)
		if after := w.get("/v1/purchases/"+id, w.client); string(after.body) != string(before.body) {
			t.Errorf("%s: %s, was %s", name, after.body, before.body)
		}
	}
	for _, unknown := range []string{"hf-00000000000000000000000000000000", "order 7 of somebody else", strings.Repeat("x", 255)} {
		w.report(key, fields{"client_order_id": unknown}, nil).wantStatus(202)
	}
}

func TestBrokerEventIsReadStrictly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.key(auth.ScopeBroker, "")
	for _, body := range []any{
		fields{}, fields{"client_order_id": ""}, fields{"client_order_id": 7}, fields{"client_order_id": nil},
		fields{"client_order_id": "a\x00b"}, fields{"client_order_id": strings.Repeat("x", 256)},
		fields{"client_order_id": "k", "more": 1}, `{"client_order_id":"k","client_order_id":"k"}`, `[]`, `{"client_order_id":"k"`,
	} {
		w.report(key, body, nil).wantProblem(400, "invalid-request")
	}
	w.report(key, `{"client_order_id":"`+strings.Repeat("x", 64<<10)+`"}`, nil).wantProblem(413, "too-large")
	w.report(key, "client_order_id=k", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}).
		wantProblem(415, "unsupported-media-type")
}

// A broker's key reports events and does nothing else; no other key reports events.
func TestBrokerScope(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.key(auth.ScopeBroker, "")
	event := fields{"client_order_id": "k"}
	for _, other := range []string{w.client, w.operator, environmentKey} {
		w.report(other, event, nil).wantProblem(403, "forbidden")
	}
	w.report("", event, nil).wantProblem(401, "unauthorized")
	id := w.buy(order(nil)).wantStatus(201).text("id")
	for _, path := range []string{
		"/v1/purchases", "/v1/purchases/" + id, "/v1/purchases/" + id + "/history", "/v1/accounts/acct-1",
		"/v1/summary", "/v1/findings", "/v1/events",
	} {
		w.get(path, key).wantProblem(403, "forbidden")
	}
	w.do(request{method: "POST", path: "/v1/purchases", key: key, body: order(nil), header: withKey("k")}).wantProblem(403, "forbidden")
	w.do(request{method: "POST", path: "/v1/stream-tickets", key: key}).wantProblem(403, "forbidden")
}

const eventsSecret = "a-secret-of-the-broker"

// signed returns the headers of a message signed at a time.
func signed(t *testing.T, secret, id, message string, at time.Time) http.Header {
	t.Helper()
	signer, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(id, at, []byte(message))
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature},
	}
}

func TestSignedBrokerEvents(t *testing.T) {
	t.Parallel()
	verifier, err := api.NewEventVerifier("", eventsSecret, "whsec_YW5vdGhlci1zZWNyZXQtb2YtYS1icm9rZXI=")
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, func(p *api.Params) { p.Events = verifier })
	key := w.key(auth.ScopeBroker, "")
	const message = `{"client_order_id": "k"}`
	now := time.Now()
	good := signed(t, eventsSecret, "msg-1", message, now)
	w.report(key, message, good).wantStatus(202)
	w.report(key, message, signed(t, "another-secret-of-a-broker", "msg-2", message, now)).wantStatus(202)
	w.report(key, message, signed(t, eventsSecret, "msg-3", message, now.Add(-4*time.Minute))).wantStatus(202)
	rotated := good.Clone()
	rotated.Set("Webhook-Signature", "v1,AAAA v1a,x "+good.Get("Webhook-Signature"))
	w.report(key, message, rotated).wantStatus(202)

	for name, header := range map[string]http.Header{
		"Unsigned": nil,
		"Old":      signed(t, eventsSecret, "msg-1", message, now.Add(-6*time.Minute)),
		"Early":    signed(t, eventsSecret, "msg-1", message, now.Add(6*time.Minute)),
		"Secret":   signed(t, "somebody-else's-secret", "msg-1", message, now),
		"Message":  signed(t, eventsSecret, "msg-1", message+" ", now),
		"ID":       changed(good, "Webhook-Id", "msg-2"),
		"NoID":     changed(good, "Webhook-Id", ""),
		"Time":     changed(good, "Webhook-Timestamp", strconv.FormatInt(now.Unix()-1, 10)),
		"BadTime":  changed(good, "Webhook-Timestamp", "now"),
		"Version":  changed(good, "Webhook-Signature", "v2"+strings.TrimPrefix(good.Get("Webhook-Signature"), "v1")),
	} {
		if a := w.report(key, message, header); a.status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401: %s", name, a.status, a.body)
		}
	}
	// The scope decides first, and a signature excuses nothing in the body.
	w.report(w.client, message, good).wantProblem(403, "forbidden")
	w.report(key, `{}`, signed(t, eventsSecret, "msg-1", `{}`, now)).wantProblem(400, "invalid-request")
}

func changed(header http.Header, name, value string) http.Header {
	header = header.Clone()
	header.Set(name, value)
	return header
}
