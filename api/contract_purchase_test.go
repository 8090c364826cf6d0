package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// What CONTRACT 3, "The purchase", says of single fields.

func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := withKey("k")
	first := w.do(request{method: "POST", path: "/v1/purchases", key: w.client, header: key, body: order(nil)}).wantStatus(201)
	same := raw(`"notional":null,"currency":null,"valid_until":null,"metadata":null`)
	again := w.do(request{method: "POST", path: "/v1/purchases", key: w.client, header: key, body: same}).wantStatus(201)
	if again.text("id") != first.text("id") {
		t.Errorf("null makes another request: %s", again.body)
	}
	w.buy(`{"account_id":"acct-1","symbol":"AAPL","quantity":null,"limit_price":null,"notional":"10"}`).wantStatus(201)
}

func TestValidUntilIsShownAndCompared(t *testing.T) {
	t.Parallel()
	w := setup(t)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	post := func(value any, key string) *answer {
		return w.do(request{method: "POST", path: "/v1/purchases", key: w.client, header: withKey(key), body: order(fields{"valid_until": value})})
	}
	first := post(until.Format(time.RFC3339), "k").wantStatus(201)
	if shown, err := time.Parse(time.RFC3339, first.text("valid_until")); err != nil || !shown.Equal(until) {
		t.Errorf("valid_until is %s, want %s", first.text("valid_until"), until)
	}
	post(until.In(time.FixedZone("", 3600)).Format(time.RFC3339), "k").wantStatus(201).wantHeader("Idempotent-Replayed", "true")
	post(until.Add(time.Second).Format(time.RFC3339), "k").wantProblem(422, "idempotency-key-reused")
	post(nil, "k").wantProblem(422, "idempotency-key-reused")
	post(nil, "other").wantStatus(201).wantNull("valid_until")
}

func TestCertaintyAndResolveBy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.buy(order(nil)).wantStatus(201).wantText("certainty", "settled").wantNull("resolve_by")
	w.buy(order(fields{"symbol": "REJECT"})).wantStatus(422).wantText("certainty", "settled").wantNull("resolve_by")
	uncertain := w.buy(order(fields{"symbol": "BUSY"})).wantStatus(202).wantText("certainty", "uncertain")
	if by, err := time.Parse(time.RFC3339, uncertain.text("resolve_by")); err != nil || by.Before(time.Now()) {
		t.Errorf("resolve_by is %q", uncertain.text("resolve_by"))
	}
	w.exec("UPDATE transaction_history SET reason = 'processing' WHERE id = $1", uncertain.text("id"))
	w.get("/v1/purchases/"+uncertain.text("id"), w.client).wantText("certainty", "working")
	pending := w.get("/v1/purchases/"+w.pending(), w.client).wantText("certainty", "uncertain")
	if by, err := time.Parse(time.RFC3339, pending.text("resolve_by")); err != nil || by.Before(time.Now()) {
		t.Errorf("resolve_by is %q", pending.text("resolve_by"))
	}
}

func TestBrokersBody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := func(a *answer) (any, bool) {
		response := a.json["broker_response"].(map[string]any)
		value, shown := response["body"]
		return value, shown
	}
	id := w.buy(order(nil)).wantStatus(201).text("id")
	if _, shown := body(w.get("/v1/purchases/"+id, w.client)); !shown {
		t.Error("no body")
	}
	list := w.get("/v1/purchases", w.client).wantStatus(200)
	if strings.Contains(string(list.body), `"body"`) || !strings.Contains(string(list.body), `"status_code":201`) {
		t.Errorf("list: %s", list.body)
	}
	refused := w.buy(order(fields{"symbol": "CREDENTIALS"})).wantStatus(422)
	if value, shown := body(refused); shown {
		t.Errorf("a client sees %v of the broker's 401", value)
	}
	if _, shown := body(w.get("/v1/purchases/"+refused.text("id"), w.operator)); !shown {
		t.Error("an operator does not see the body of the broker's 401")
	}
}

func TestBrokerAndItsKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bought := w.buy(order(nil)).wantStatus(201)
	if bought.text("broker") == "" {
		t.Error("no broker")
	}
	if _, shown := bought.json["broker_key"]; shown {
		t.Error("a client sees the broker key")
	}
	w.get("/v1/purchases/"+bought.text("id"), w.operator).wantText("broker_key", w.brokerKey(bought.text("id")))
}

func TestLongReasonIsTruncated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	code, _ := json.Marshal(map[string]string{"code": strings.Repeat("\u00e9", 200_000)})
	if err := w.sandbox.Script(*refusal(422, string(code))); err != nil {
		t.Fatal(err)
	}
	a := w.do(request{method: "POST", path: "/v1/purchases", key: w.client, header: withKey(uuid.NewString()), body: order(nil)}).wantStatus(422)
	if n := len([]rune(a.text("reason"))); n != 256 {
		t.Errorf("reason has %d characters", n)
	}
	if n := w.count("SELECT max(length(reason)) FROM (SELECT reason FROM outbox UNION ALL SELECT reason FROM purchase_event) e"); n != 256 {
		t.Errorf("its event has %d", n)
	}
}
