package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"holdfast/api"
	"holdfast/sandbox"
)

// Each row of the table of POST /v1/purchases, by name.

func TestSubmitBrokerConfirms(t *testing.T) {
	t.Parallel()
	w := setup(t)
	t.Run("With201", func(t *testing.T) {
		a := w.buy(order(nil)).wantPurchase(201, "completed").wantText("status", "COMPLETED").
			wantText("evidence", "reply").wantText("cost", "250.00").wantText("reserved", "0.00").
			wantText("filled_quantity", "10").wantNull("reason", "next_retry", "notional")
		a.wantHeader("Location", "/v1/purchases/"+a.text("id")).wantHeader("Retry-After", "")
		if id, err := uuid.Parse(a.text("id")); err != nil || id.Version() != 7 {
			t.Errorf("id = %v, want a UUIDv7", a.text("id"))
		}
	})
	t.Run("ForANotional", func(t *testing.T) {
		w.buy(order(fields{"notional": "100.50", "quantity": nil, "limit_price": nil})).wantPurchase(201, "completed").
			wantText("notional", "100.50").wantText("cost", "100.50").wantNull("quantity", "limit_price")
	})
	t.Run("DecimalsAreKeptAsWritten", func(t *testing.T) {
		w.buy(order(fields{"quantity": "0.100000000", "limit_price": "00.333333"})).wantPurchase(201, "completed").
			wantText("quantity", "0.100000000").wantText("limit_price", "0.333333")
	})
	t.Run("MetadataIsKeptAsItIs", func(t *testing.T) {
		metadata := `{"n":12345678901234567890.10, "deep":[[[{"x":null}]]],"e":1e-300,"s":"\u00e9\u0000"}`
		a := w.buy(`{"account_id":"acct-1","symbol":"AAPL","notional":"1","metadata":` + metadata + `}`).wantStatus(201)
		if want := strings.ReplaceAll(metadata, ", ", ","); !strings.Contains(string(a.body), `"metadata":`+want) {
			t.Errorf("metadata changed: %s", a.body)
		}
	})
}

func TestSubmitBrokerRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, c := range []struct {
		name, symbol string
		act          *sandbox.Response
		status       int
		reason       string
	}{
		{"WithItsOwnStatus", "REJECT", nil, 422, "market_closed"},
		{"With429", "RATE-LIMITED", nil, 429, "too_many_requests"},
		{"With401BecauseOfOurCredentials", "CREDENTIALS", nil, 422, "bad_token"},
		{"InA2xx", "REJECT-2XX", nil, 422, "halted"},
		{"With400", "AAPL", refusal(400, `{"code":"bad"}`), 400, "bad"},
		{"With403AndNoCode", "AAPL", refusal(403, `<html>`), 403, "broker_4xx"},
		{"With404", "AAPL", refusal(404, `{"code":"no_such_symbol"}`), 404, "no_such_symbol"},
		{"With407BecauseOfOurCredentials", "AAPL", refusal(407, `{}`), 422, "broker_4xx"},
		{"With418", "AAPL", refusal(418, `{"code":"teapot"}`), 418, "teapot"},
		{"With499", "AAPL", refusal(499, ``), 499, "broker_4xx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.act != nil {
				if err := w.sandbox.Script(*c.act); err != nil {
					t.Fatal(err)
				}
			}
			key := uuid.NewString()
			first := w.buyAs(key, order(fields{"symbol": c.symbol})).wantPurchase(c.status, "rejected").
				wantText("status", "REJECTED").wantText("reason", c.reason).wantText("evidence", "reply").
				wantText("reserved", "0.00").wantNull("cost")
			if strings.Contains(first.header.Get("WWW-Authenticate"), "Bearer") {
				t.Error("the answer doubts the client's key")
			}
			again := w.buyAs(key, order(fields{"symbol": c.symbol})).wantPurchase(c.status, "rejected").
				wantHeader("Idempotent-Replayed", "true")
			if string(again.body) != string(first.body) {
				t.Errorf("the repeat differs:\n%s\n%s", first.body, again.body)
			}
		})
	}
}

func refusal(status int, body string) *sandbox.Response {
	return &sandbox.Response{Call: "place", Status: status, Body: &body}
}

func TestSubmitUncertain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, c := range []struct {
		name, symbol string
		act          *sandbox.Response
		reason       string
	}{
		{"Timeout", "TIMEOUT-BOOKED", nil, "timeout"},
		{"ClosedConnection", "DROP-LOST", nil, "connection_closed"},
		{"Broker5xx", "ERR500", nil, "broker_5xx"},
		{"Redirect", "REDIRECT", nil, "redirect"},
		{"Unreadable", "GARBAGE", nil, "unreadable_response"},
		{"AnotherKey", "MISMATCH", nil, "mismatch"},
		{"DuplicateKey", "DUPLICATE", nil, "duplicate_key"},
		{"Processing", "PROCESSING", nil, "processing"},
		{"With408", "AAPL", refusal(408, `{"code":"slow"}`), "timeout"},
		{"With409", "AAPL", refusal(409, `{"code":"conflict"}`), "duplicate_key"},
		{"With400OfADuplicate", "AAPL", refusal(400, `{"code":"Order_DUPLICATE_id"}`), "duplicate_key"},
		{"With302", "AAPL", refusal(302, ``), "redirect"},
		{"With503", "AAPL", refusal(503, `{"code":"down"}`), "broker_5xx"},
		{"EmptyBody", "AAPL", refusal(201, ``), "unreadable_response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.act != nil {
				if err := w.sandbox.Script(*c.act); err != nil {
					t.Fatal(err)
				}
			}
			key := uuid.NewString()
			a := w.buyAs(key, order(fields{"symbol": c.symbol})).wantPurchase(202, "pending_reconciliation").wantRetryAfter().
				wantText("status", "UNKNOWN").wantText("reason", c.reason).wantText("reserved", "250.00").
				wantNull("evidence", "cost", "settled_at", "filled_quantity")
			a.wantHeader("Location", "/v1/purchases/"+a.text("id")).text("next_retry")
			w.buyAs(key, order(fields{"symbol": c.symbol})).wantPurchase(202, "pending_reconciliation").
				wantRetryAfter().wantHeader("Idempotent-Replayed", "true").wantText("id", a.text("id"))
		})
	}
}

func TestSubmitRepeat(t *testing.T) {
	t.Parallel()
	w := setup(t)
	t.Run("MetadataIsComparedAsJSON", func(t *testing.T) {
		key := uuid.NewString()
		with := func(metadata string) *answer {
			return w.buyAs(key, `{"account_id":"acct-1","symbol":"AAPL","notional":"1","metadata":`+metadata+`}`)
		}
		with(`{"a":1,"b":{"x":1.0,"y":[1,"é"]}}`).wantStatus(201)
		with(`{ "b" : {"y":[1e0,"\u00e9"],"x":1}, "a":1.00 }`).wantStatus(201).wantHeader("Idempotent-Replayed", "true")
		with(`{"a":1,"b":{"x":1.0,"y":["é",1]}}`).wantProblem(422, "idempotency-key-reused")
		with(`{"a":"1","b":{"x":1.0,"y":[1,"é"]}}`).wantProblem(422, "idempotency-key-reused")
	})
	t.Run("OfACompletedOneIsAsAtFirst", func(t *testing.T) {
		key := uuid.NewString()
		first := w.buyAs(key, order(nil)).wantStatus(201).wantHeader("Idempotent-Replayed", "")
		same := `{"limit_price":"25.0","quantity":"10.00","metadata":{},"currency":"USD","symbol":"AAPL","account_id":"acct-1"}`
		again := w.buyAs(key, same).wantStatus(201).wantHeader("Idempotent-Replayed", "true")
		if string(again.body) != string(first.body) {
			t.Errorf("the repeat differs:\n%s\n%s", first.body, again.body)
		}
	})
	t.Run("OfOneCompletedByALookupIs200", func(t *testing.T) {
		key := uuid.NewString()
		id := w.buyAs(key, order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		w.pass(id)
		w.buyAs(key, order(fields{"symbol": "DROP-BOOKED"})).wantPurchase(200, "completed").
			wantHeader("Idempotent-Replayed", "true").wantText("evidence", "lookup").wantHeader("Retry-After", "")
	})
	t.Run("OfOneRejectedByAnOperatorIs422", func(t *testing.T) {
		id := w.review()
		w.do(request{method: "POST", path: "/v1/purchases/" + id + "/resolution", key: w.operator,
			body: fields{"outcome": "rejected", "note": "n"}}).wantStatus(200)
		key := w.keyOf(id)
		w.buyAs(key, order(fields{"symbol": "WRONG-QUANTITY"})).wantPurchase(422, "rejected").
			wantHeader("Idempotent-Replayed", "true").wantText("reason", "operator")
	})
	t.Run("OfOneInReviewIs202", func(t *testing.T) {
		id := w.review()
		w.buyAs(w.keyOf(id), order(fields{"symbol": "WRONG-QUANTITY"})).wantPurchase(202, "pending_reconciliation").
			wantHeader("Idempotent-Replayed", "true").wantRetryAfter().wantText("status", "MANUAL_REVIEW")
	})
	t.Run("WithAnotherMeaning", func(t *testing.T) {
		key := uuid.NewString()
		w.buyAs(key, order(nil)).wantStatus(201)
		for _, change := range []fields{
			{"symbol": "MSFT"}, {"quantity": "11"}, {"limit_price": "25.01"}, {"metadata": fields{"a": 1}},
			{"notional": "250.00", "quantity": nil, "limit_price": nil}, {"currency": "EUR"},
		} {
			w.buyAs(key, order(change)).wantProblem(422, "idempotency-key-reused")
		}
	})
	t.Run("OfAnotherAccountsKeyIsItsOwn", func(t *testing.T) {
		key := uuid.NewString()
		w.buyAs(key, order(fields{"quantity": "1"})).wantStatus(201)
		w.do(request{method: "POST", path: "/v1/purchases", key: w.other, header: withKey(key),
			body: order(fields{"account_id": "acct-2", "quantity": "1"})}).wantStatus(201).wantHeader("Idempotent-Replayed", "")
	})
}

func (w *world) keyOf(id string) (key string) {
	w.t.Helper()
	row := w.pool.QueryRow(w.t.Context(), "SELECT idempotency_key FROM transaction_history WHERE id = $1", id)
	if err := row.Scan(&key); err != nil {
		w.t.Fatal(err)
	}
	return key
}

func TestSubmitKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, c := range []struct {
		name string
		keys []string
		slug string
	}{
		{"None", nil, "idempotency-key-required"},
		{"Empty", []string{""}, "idempotency-key-invalid"},
		{"Two", []string{"a", "b"}, "idempotency-key-invalid"},
		{"TwoEqual", []string{"a", "a"}, "idempotency-key-invalid"},
		{"TooLong", []string{strings.Repeat("k", 256)}, "idempotency-key-invalid"},
		{"WithASpace", []string{"a b"}, "idempotency-key-invalid"},
		{"WithATab", []string{"a\tb"}, "idempotency-key-invalid"},
		{"NotASCII", []string{"schlüssel"}, "idempotency-key-invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.do(request{method: "POST", path: "/v1/purchases", key: w.client, body: order(nil),
				header: http.Header{"Idempotency-Key": c.keys}}).wantProblem(400, c.slug)
		})
	}
	t.Run("LongestAndOddest", func(t *testing.T) {
		w.buyAs(strings.Repeat("~", 254)+"!", order(nil)).wantStatus(201)
	})
	if n := w.count("SELECT count(*) FROM transaction_history"); n != 1 {
		t.Errorf("%d rows, want the one with the good key", n)
	}
}

func TestSubmitNotEnoughAvailable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.buy(order(fields{"quantity": "401"})).wantProblem(400, "insufficient-funds")
	w.get("/v1/accounts/acct-1", w.client).wantText("available", "10000.00")
	if n := w.count("SELECT count(*) FROM transaction_history"); n != 0 || w.sandbox.Ledger("").Orders != 0 {
		t.Errorf("%d rows, %d orders, want none", n, w.sandbox.Ledger("").Orders)
	}
}

func TestSubmitAccount(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.buy(order(fields{"account_id": "acct-2"})).wantProblem(404, "account-not-found")
	w.buy(order(fields{"account_id": "acct-9"})).wantProblem(404, "account-not-found")
	w.buy(order(fields{"currency": "EUR"})).wantProblem(400, "invalid-request")
}

func TestSubmitWho(t *testing.T) {
	t.Parallel()
	w := setup(t)
	post := func(key string, header http.Header) *answer {
		return w.do(request{method: "POST", path: "/v1/purchases", key: key, body: order(nil), header: header})
	}
	post("", withKey("k")).wantProblem(401, "unauthorized").wantHeader("WWW-Authenticate", `Bearer realm="holdfast"`)
	post("", withKey("k")).wantText("detail", "the request needs one header of the form Authorization: Bearer KEY")
	post("hf_client_unknown", withKey("k")).wantProblem(401, "unauthorized").wantText("detail", "the API key is unknown, expired or revoked")
	post("", http.Header{"Idempotency-Key": {"k"}, "Authorization": {"Basic YTpi"}}).wantProblem(401, "unauthorized")
	post("", http.Header{"Idempotency-Key": {"k"}, "Authorization": {"Bearer " + w.client, "Bearer " + w.other}}).wantProblem(401, "unauthorized")
	post(w.operator, withKey("k")).wantProblem(403, "forbidden")
	post(environmentKey, withKey("k")).wantProblem(403, "forbidden")
}

func TestSubmitSizeAndType(t *testing.T) {
	t.Parallel()
	w := setup(t)
	post := func(body string, types ...string) *answer {
		header := withKey(uuid.NewString())
		header["Content-Type"] = types
		return w.do(request{method: "POST", path: "/v1/purchases", key: w.client, body: body, header: header})
	}
	good := `{"account_id":"acct-1","symbol":"AAPL","notional":"1.00"}`
	pad := strings.Repeat(" ", 64<<10-len(good))
	post(good+pad, "application/json").wantStatus(201)
	post(good+pad+" ", "application/json").wantProblem(413, "too-large")
	post(good, "application/json; charset=UTF-8").wantStatus(201)
	post(good).wantProblem(415, "unsupported-media-type")
	post(good, "text/plain").wantProblem(415, "unsupported-media-type")
	post(good, "application/json; charset=latin1").wantProblem(415, "unsupported-media-type")
	post(good, "application/problem+json").wantProblem(415, "unsupported-media-type")
	post(good, "application/json", "application/json").wantProblem(415, "unsupported-media-type")
	post(good, ";").wantProblem(415, "unsupported-media-type")
}

func TestSubmitUnavailable(t *testing.T) {
	t.Parallel()
	t.Run("IntakePaused", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		key := uuid.NewString()
		w.buyAs(key, order(nil)).wantStatus(201)
		w.switched("intake", true)
		w.buy(order(nil)).wantProblem(503, "unavailable").wantRetryAfter()
		w.buyAs(key, order(nil)).wantStatus(201).wantHeader("Idempotent-Replayed", "true")
		w.switched("intake", false)
		w.buy(order(nil)).wantStatus(201)
	})
	t.Run("BreakerOpen", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		key := uuid.NewString()
		for range 4 {
			w.buy(order(fields{"symbol": "ERR500", "quantity": "1"})).wantStatus(202)
		}
		w.buyAs(key, order(fields{"symbol": "ERR500", "quantity": "1"})).wantStatus(202)
		w.buy(order(nil)).wantProblem(503, "unavailable").wantRetryAfter()
		w.buyAs(key, order(fields{"symbol": "ERR500", "quantity": "1"})).wantStatus(202).wantHeader("Idempotent-Replayed", "true")
		if n := w.count("SELECT count(*) FROM transaction_history"); n != 5 {
			t.Errorf("%d rows, want 5", n)
		}
	})
	t.Run("ShuttingDown", func(t *testing.T) {
		t.Parallel()
		stop := make(chan struct{})
		w := setup(t, func(p *api.Params) { p.ShuttingDown = stop })
		w.buy(order(nil)).wantStatus(201)
		w.get("/readyz", "").wantStatus(200)
		close(stop)
		w.buy(order(nil)).wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/readyz", "").wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/healthz", "").wantStatus(200)
	})
	t.Run("DatabaseAway", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.buy(order(nil)).wantStatus(201)
		w.pool.Close()
		w.buy(order(nil)).wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/readyz", "").wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/v1/purchases", w.client).wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/v1/purchases", "a-key-never-seen").wantProblem(503, "unavailable").wantRetryAfter()
	})
	t.Run("Overloaded", func(t *testing.T) {
		t.Parallel()
		w := setup(t, func(p *api.Params) { p.Limits.InFlight = 1 })
		held := make(chan *answer)
		go func() { held <- w.buy(order(fields{"symbol": "TIMEOUT-BOOKED"})) }()
		waitFor(t, func() bool { return w.count("SELECT count(*) FROM transaction_history") == 1 })
		w.buy(order(nil)).wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/healthz", "").wantStatus(200)
		(<-held).wantStatus(202)
		w.buy(order(nil)).wantStatus(201)
	})
}

func (w *world) switched(name string, paused bool) *answer {
	w.t.Helper()
	return w.do(request{method: "PUT", path: "/v1/switches/" + name, key: w.operator,
		body: fields{"paused": paused, "note": "maintenance"}}).wantStatus(200)
}

func TestSubmitRateLimited(t *testing.T) {
	t.Parallel()
	w := setup(t, func(p *api.Params) { p.Limits.Rate = 0.01 })
	w.buy(order(nil)).wantStatus(201)
	w.buy(`not even JSON`).wantProblem(429, "rate-limited").wantRetryAfter()
	w.get("/v1/purchases", w.client).wantProblem(429, "rate-limited")
	w.get("/v1/purchases", w.other).wantStatus(200)
	w.get("/v1/purchases", "unknown").wantProblem(401, "unauthorized")
}
