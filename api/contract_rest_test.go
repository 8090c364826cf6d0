package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/api"
)

// Each row of the table of the other routes, by name.

func TestGetPurchase(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.buy(order(nil)).wantStatus(201).text("id")
	path := "/v1/purchases/" + id
	t.Run("ByItsClientAndAnOperator", func(t *testing.T) {
		w.get(path, w.client).wantPurchase(200, "completed").wantText("id", id)
		w.get(path, w.operator).wantPurchase(200, "completed")
		w.get(path, environmentKey).wantPurchase(200, "completed")
	})
	t.Run("AnothersIsNotFound", func(t *testing.T) {
		w.get(path, w.other).wantProblem(404, "not-found")
		w.get(path+"/history", w.other).wantProblem(404, "not-found")
	})
	t.Run("UnknownOrMalformedIsNotFound", func(t *testing.T) {
		for _, bad := range []string{
			uuid.NewString(), "1", "x%00", "%7B" + id + "%7D", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + "0", "%C3%A9",
		} {
			w.get("/v1/purchases/"+bad, w.client).wantProblem(404, "not-found")
			w.get("/v1/purchases/"+bad+"/history", w.operator).wantProblem(404, "not-found")
		}
	})
	t.Run("IfNoneMatch", func(t *testing.T) {
		tag := w.get(path, w.client).wantStatus(200).header.Get("ETag")
		for _, header := range []string{tag, `"x", ` + tag, "W/" + tag, "*"} {
			a := w.get(path, w.client, http.Header{"If-None-Match": {header}}).wantStatus(304).wantHeader("ETag", tag)
			if len(a.body) > 0 {
				t.Errorf("a 304 with a body: %s", a.body)
			}
		}
		w.get(path, w.client, http.Header{"If-None-Match": {`"x"`}}).wantStatus(200)
	})
	t.Run("TagChangesWithWhatIsShown", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202).text("id")
		before := w.get("/v1/purchases/"+id, w.client).header.Get("ETag")
		w.exec("UPDATE transaction_history SET next_retry = next_retry + interval '1 second' WHERE id = $1", id)
		w.get("/v1/purchases/"+id, w.client, http.Header{"If-None-Match": {before}}).wantStatus(200)
	})
	t.Run("Head", func(t *testing.T) {
		a := w.do(request{method: "HEAD", path: path, key: w.client}).wantStatus(200)
		if a.header.Get("ETag") == "" || len(a.body) > 0 {
			t.Errorf("ETag %q, body %q", a.header.Get("ETag"), a.body)
		}
	})
}

func TestPreferWait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	waiting := func(id string, n any) *answer {
		return w.get("/v1/purchases/"+id, w.client, http.Header{"Prefer": {fmt.Sprintf("respond-async, wait=%v", n)}})
	}
	t.Run("AnswersAFinalOneAtOnce", func(t *testing.T) {
		id := w.buy(order(nil)).wantStatus(201).text("id")
		start := time.Now()
		waiting(id, 30).wantPurchase(200, "completed")
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
	t.Run("HoldsUntilFinal", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		done := make(chan *answer)
		go func() { done <- waiting(id, 30) }()
		select {
		case a := <-done:
			t.Fatalf("did not wait: %s", a.body)
		case <-time.After(100 * time.Millisecond):
		}
		w.pass(id)
		(<-done).wantPurchase(200, "completed").wantHeader("Preference-Applied", "wait")
	})
	t.Run("GivesUpAfterN", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		start := time.Now()
		waiting(id, 1).wantPurchase(200, "pending_reconciliation")
		if took := time.Since(start); took < time.Second {
			t.Errorf("held for %v only", took)
		}
	})
	t.Run("WhatCannotBeReadIsNoPreference", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		for _, n := range []string{"-1", "x", "", "1.5", "99999999999"} {
			waiting(id, n).wantPurchase(200, "pending_reconciliation").wantHeader("Preference-Applied", "")
		}
	})
	t.Run("TakesNoPlaceAmongTheRequestsAndEndsAtShutdown", func(t *testing.T) {
		stop := make(chan struct{})
		p := w.params
		p.ShuttingDown, p.Limits = stop, api.Limits{InFlight: 1}
		handler, waiting := api.NewWaiting(p)
		server := w.serveHandler(handler)
		id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		done := make(chan *answer)
		asked := request{method: "GET", path: "/v1/purchases/" + id, key: w.client, header: http.Header{"Prefer": {"wait=30"}}}
		go func() { done <- w.doOn(server, asked) }()
		waitFor(t, func() bool { return waiting() == 1 })
		w.doOn(server, request{method: "GET", path: "/v1/purchases", key: w.client}).wantStatus(200)
		close(stop)
		(<-done).wantPurchase(200, "pending_reconciliation")
	})
}

func TestListPurchases(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var ids []string
	for range 7 {
		ids = append(ids, w.buy(order(fields{"quantity": "1"})).wantStatus(201).text("id"))
	}
	unknown := w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202).text("id")
	w.do(request{method: "POST", path: "/v1/purchases", key: w.other, header: withKey("k"),
		body: order(fields{"account_id": "acct-2"})}).wantStatus(201)
	slices.Reverse(ids)
	all := append([]string{unknown}, ids...)

	t.Run("NewestFirstPageByPageWhileNewOnesCome", func(t *testing.T) {
		var got []string
		path := "/v1/purchases?limit=3"
		for path != "" {
			a := w.get(path, w.client).wantStatus(200)
			got = append(got, a.ids()...)
			w.buy(order(fields{"quantity": "1"})).wantStatus(201)
			path = ""
			if next, ok := a.json["next_cursor"].(string); ok {
				path = "/v1/purchases?limit=3&cursor=" + url.QueryEscape(next)
			}
		}
		if !slices.Equal(got, all) {
			t.Errorf("got %v\nwant %v", got, all)
		}
	})
	t.Run("ByStatus", func(t *testing.T) {
		a := w.get("/v1/purchases?status=UNKNOWN", w.client).wantStatus(200).wantNull("next_cursor")
		if !slices.Equal(a.ids(), []string{unknown}) {
			t.Errorf("got %v", a.ids())
		}
	})
	t.Run("AClientSeesItsOwnOnly", func(t *testing.T) {
		if n := len(w.get("/v1/purchases", w.other).wantStatus(200).ids()); n != 1 {
			t.Errorf("sees %d", n)
		}
		w.get("/v1/purchases?account_id=acct-1", w.other).wantProblem(404, "account-not-found")
		w.get("/v1/purchases?account_id=acct-2", w.other).wantStatus(200)
	})
	t.Run("AnOperatorSeesAll", func(t *testing.T) {
		if n := len(w.get("/v1/purchases?account_id=acct-2", w.operator).wantStatus(200).ids()); n != 1 {
			t.Errorf("sees %d of acct-2", n)
		}
		if n := len(w.get("/v1/purchases", w.operator).wantStatus(200).ids()); n < 9 {
			t.Errorf("sees %d", n)
		}
		w.get("/v1/purchases?account_id=acct-9", w.operator).wantProblem(404, "account-not-found")
		w.get("/v1/purchases?account_id=", w.operator).wantProblem(404, "account-not-found")
		w.get("/v1/purchases?account_id=%00", w.operator).wantProblem(404, "account-not-found")
	})
	t.Run("WrongParametersAreNamed", func(t *testing.T) {
		for query, names := range map[string][]string{
			"limit=0": {"limit"}, "limit=501": {"limit"}, "limit=x": {"limit"}, "limit=": {"limit"}, "limit=%2B5": {"limit"},
			"limit=5&limit=6": {"limit"}, "status=unknown": {"status"}, "status=": {"status"}, "cursor=x": {"cursor"}, "cursor=": {"cursor"},
			"limit=-1&status=X&cursor=%00": {"limit", "status", "cursor"}, "%zz": {"query"},
		} {
			a := w.get("/v1/purchases?"+query, w.client).wantProblem(400, "invalid-request")
			if !slices.Equal(a.locations(), names) {
				t.Errorf("%s names %v, want %v", query, a.locations(), names)
			}
		}
		w.get("/v1/purchases?limit=500", w.client).wantStatus(200)
	})
	t.Run("NothingIsAnEmptyPage", func(t *testing.T) {
		a := w.get("/v1/purchases?status=REJECTED", w.client).wantStatus(200).wantNull("next_cursor")
		if !strings.Contains(string(a.body), `"data":[]`) {
			t.Errorf("body %s", a.body)
		}
	})
}

func (a *answer) ids() []string {
	a.t.Helper()
	var ids []string
	for _, item := range a.json["data"].([]any) {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	return ids
}

func TestHistory(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.review()
	w.do(request{method: "POST", path: "/v1/purchases/" + id + "/resolution", key: w.operator,
		body: fields{"outcome": "completed", "note": "asked on the phone"}}).wantStatus(200)
	a := w.get("/v1/purchases/"+id+"/history", w.client).wantStatus(200)
	var told []string
	for _, item := range a.json["data"].([]any) {
		e := item.(map[string]any)
		switch e["kind"] {
		case "status":
			told = append(told, fmt.Sprintf("%v %v", e["status"], strings.Split(e["actor"].(string), ":")[0]))
		case "attempt":
			told = append(told, fmt.Sprintf("%v %v", e["call"], e["result"]))
		case "note":
			told = append(told, fmt.Sprintf("%v", e["code"]))
		}
	}
	want := []string{"PENDING client", "place uncertain", "UNKNOWN client", "lookup accepted", "MANUAL_REVIEW worker", "COMPLETED operator", "resolution"}
	slices.Sort(told[5:])
	slices.Sort(want[5:])
	if !slices.Equal(told, want) {
		t.Errorf("history tells %v\nwant %v", told, want)
	}
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	create := func(key string, body any) *answer {
		return w.do(request{method: "POST", path: "/v1/accounts", key: key, body: body})
	}
	t.Run("Get", func(t *testing.T) {
		w.get("/v1/accounts/acct-1", w.client).wantStatus(200).wantText("id", "acct-1").wantText("currency", "USD").
			wantText("available", "10000.00").wantText("reserved", "0.00").wantText("spent", "0.00").wantText("deposited", "10000.00")
		w.get("/v1/accounts/acct-1", w.operator).wantStatus(200)
		w.get("/v1/accounts/acct-2", w.client).wantProblem(404, "account-not-found")
		w.get("/v1/accounts/none", w.operator).wantProblem(404, "account-not-found")
		w.get("/v1/accounts/%00", w.operator).wantProblem(404, "account-not-found")
	})
	t.Run("Create", func(t *testing.T) {
		create(w.operator, fields{"id": "new", "currency": "JPY", "available": "5000"}).wantStatus(201).
			wantText("available", "5000").wantHeader("Location", "/v1/accounts/new")
		create(w.operator, fields{"id": "new", "currency": "JPY"}).wantProblem(409, "account-exists")
		create(w.operator, fields{"id": "empty", "currency": "EUR"}).wantStatus(201).wantText("available", "0.00")
		create(w.client, fields{"id": "x", "currency": "EUR"}).wantProblem(403, "forbidden")
		a := create(w.operator, fields{"id": "-x", "currency": "ABC", "available": "-1", "more": 1}).wantProblem(400, "invalid-request")
		if want := []string{"id", "currency", "available", "more"}; !slices.Equal(a.locations(), want) {
			t.Errorf("names %v, want %v", a.locations(), want)
		}
		create(w.operator, fields{"id": "y", "currency": "JPY", "available": "1.5"}).wantProblem(400, "invalid-request")
	})
	t.Run("Deposit", func(t *testing.T) {
		deposit := func(key, idempotency string, body any) *answer {
			return w.do(request{method: "POST", path: "/v1/accounts/acct-2/deposits", key: key, body: body, header: withKey(idempotency)})
		}
		deposit(w.operator, "d1", fields{"amount": "50.00", "note": "wire"}).wantStatus(201).
			wantText("available", "10050.00").wantHeader("Idempotent-Replayed", "")
		deposit(w.operator, "d1", fields{"amount": "50.0", "note": "wire"}).wantStatus(201).
			wantText("available", "10050.00").wantHeader("Idempotent-Replayed", "true")
		deposit(w.operator, "d1", fields{"amount": "51"}).wantProblem(422, "idempotency-key-reused")
		deposit(w.operator, "", fields{"amount": "51"}).wantProblem(400, "idempotency-key-invalid")
		for _, amount := range []any{"0", "-1", "1e3", "1.234", 5, nil, "", "1234567890123"} {
			deposit(w.operator, "d2", fields{"amount": amount}).wantProblem(400, "invalid-request")
		}
		deposit(w.operator, "d2", fields{}).wantProblem(400, "invalid-request")
		deposit(w.operator, "d2", fields{"amount": "1", "note": "a\x00b"}).wantProblem(400, "invalid-request")
		deposit(w.other, "d2", fields{"amount": "51"}).wantProblem(403, "forbidden")
		w.do(request{method: "POST", path: "/v1/accounts/none/deposits", key: w.operator, body: fields{"amount": "1"}, header: withKey("d")}).
			wantProblem(404, "account-not-found")
		w.do(request{method: "POST", path: "/v1/accounts/acct-2/deposits", key: w.operator, body: fields{"amount": "1"}}).
			wantProblem(400, "idempotency-key-required")
	})
}

func TestResolution(t *testing.T) {
	t.Parallel()
	w := setup(t)
	resolve := func(id, key string, body any) *answer {
		return w.do(request{method: "POST", path: "/v1/purchases/" + id + "/resolution", key: key, body: body})
	}
	t.Run("CompletedFromReviewAndAgain", func(t *testing.T) {
		id := w.review()
		body := fields{"outcome": "completed", "note": "asked", "order_id": "X-1", "cost": "240.00"}
		resolve(id, w.operator, body).wantPurchase(200, "completed").wantText("evidence", "operator").
			wantText("cost", "240.00").wantText("filled_quantity", "10").wantNull("reason")
		resolve(id, w.operator, body).wantPurchase(200, "completed")
		resolve(id, w.operator, fields{"outcome": "rejected", "note": "n"}).wantProblem(409, "already-settled")
		other := w.review()
		resolve(other, w.operator, body).wantProblem(409, "order-id-taken")
	})
	t.Run("RejectedFromUnknown", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202).text("id")
		resolve(id, w.operator, fields{"outcome": "rejected", "note": "n"}).wantPurchase(200, "rejected").
			wantText("reason", "operator").wantText("reserved", "0.00").wantNull("cost")
	})
	t.Run("FinalByTheBroker", func(t *testing.T) {
		id := w.buy(order(nil)).wantStatus(201).text("id")
		resolve(id, w.operator, fields{"outcome": "completed", "note": "n"}).wantProblem(409, "already-settled")
	})
	t.Run("Pending", func(t *testing.T) {
		id := w.pending()
		resolve(id, w.operator, fields{"outcome": "completed", "note": "n"}).wantProblem(409, "not-resolvable")
	})
	t.Run("WrongInput", func(t *testing.T) {
		id := w.review()
		for _, body := range []fields{
			{"outcome": "completed"}, {"outcome": "completed", "note": ""}, {"outcome": "completed", "note": "  "},
			{"outcome": "rejected", "note": "n", "cost": "1"}, {"outcome": "maybe", "note": "n"}, {"note": "n"},
			{"outcome": "completed", "note": "n", "cost": "1.234"}, {"outcome": "completed", "note": "n", "order_id": ""},
			{"outcome": "completed", "note": "n", "order_id": 7}, {"outcome": "completed", "note": strings.Repeat("n", 2001)},
			{"outcome": "completed", "note": "a\x00b"}, {"outcome": "completed", "note": "n", "more": true},
		} {
			resolve(id, w.operator, body).wantProblem(400, "invalid-request")
		}
	})
	t.Run("ByWhom", func(t *testing.T) {
		id := w.review()
		resolve(id, w.client, fields{"outcome": "completed", "note": "n"}).wantProblem(403, "forbidden")
		resolve(uuid.NewString(), w.operator, fields{"outcome": "completed", "note": "n"}).wantProblem(404, "not-found")
		resolve("x", w.operator, fields{"outcome": "completed", "note": "n"}).wantProblem(404, "not-found")
	})
}

// pending leaves a purchase whose process died before the outcome was stored.
func (w *world) pending() string {
	w.t.Helper()
	id := w.buy(order(nil)).wantStatus(201).text("id")
	copied := uuid.Must(uuid.NewV7()).String()
	w.exec(`INSERT INTO transaction_history (id, account_id, idempotency_key, fingerprint, symbol, quantity, limit_price,
		currency, hold, broker, broker_key, broker_request, request_hash)
		SELECT $2::uuid, account_id, $2::text, fingerprint, symbol, quantity, limit_price, currency, hold, broker, $2::text,
		broker_request, request_hash FROM transaction_history WHERE id = $1`, id, copied)
	return copied
}

func TestReconciliation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	reconcile := func(id, key string) *answer {
		return w.do(request{method: "POST", path: "/v1/purchases/" + id + "/reconciliation", key: key})
	}
	t.Run("UnknownIsDueNow", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "BUSY"})).wantStatus(202).text("id")
		a := reconcile(id, w.operator).wantPurchase(202, "pending_reconciliation").wantRetryAfter().wantHeader("Location", "/v1/purchases/"+id)
		if due, err := time.Parse(time.RFC3339, a.text("next_retry")); err != nil || time.Until(due) > 2*time.Second {
			t.Errorf("due %v", due)
		}
	})
	t.Run("ReviewGoesBackAfresh", func(t *testing.T) {
		id := w.review()
		a := reconcile(id, w.operator).wantPurchase(202, "pending_reconciliation").wantText("status", "UNKNOWN").wantText("reason", "reconcile_requested")
		if a.json["attempts"] != 0.0 {
			t.Errorf("attempts = %v", a.json["attempts"])
		}
	})
	t.Run("ElseNot", func(t *testing.T) {
		reconcile(w.buy(order(nil)).text("id"), w.operator).wantProblem(409, "not-reconcilable")
		reconcile(w.pending(), w.operator).wantProblem(409, "not-reconcilable")
		reconcile(uuid.NewString(), w.operator).wantProblem(404, "not-found")
		reconcile("x", w.operator).wantProblem(404, "not-found")
		reconcile(w.pending(), w.client).wantProblem(403, "forbidden")
	})
}

func TestReconciliations(t *testing.T) {
	t.Parallel()
	w := setup(t)
	many := func(key string, body any) *answer {
		return w.do(request{method: "POST", path: "/v1/reconciliations", key: key, body: body})
	}
	first, second := w.review(), w.review()
	count := func(a *answer, n float64) {
		t.Helper()
		if a.wantStatus(200); a.json["count"] != n {
			t.Errorf("count = %v, want %v", a.json["count"], n)
		}
	}
	a := many(w.operator, fields{"status": "MANUAL_REVIEW", "dry_run": true})
	count(a, 2)
	if list := fmt.Sprint(a.json["purchases"]); !strings.Contains(list, first) || !strings.Contains(list, second) {
		t.Errorf("a dry run lists %v", list)
	}
	count(many(w.operator, fields{"status": "MANUAL_REVIEW", "reason": "key_expired"}), 0)
	count(many(w.operator, fields{"status": "MANUAL_REVIEW", "older_than": "1h"}), 0)
	count(many(w.operator, fields{"status": "MANUAL_REVIEW", "account_id": "acct-2"}), 0)
	count(many(w.operator, fields{"status": "MANUAL_REVIEW", "reason": "mismatch", "account_id": "acct-1"}), 2)
	count(many(w.operator, fields{"status": "UNKNOWN"}), 2)
	many(w.operator, fields{"status": "UNKNOWN", "account_id": "acct-9"}).wantProblem(404, "account-not-found")
	many(w.client, fields{"status": "UNKNOWN"}).wantProblem(403, "forbidden")
	wrong := many(w.operator, fields{"status": "PENDING", "older_than": "1", "dry_run": "yes", "account_id": "", "reason": 1}).
		wantProblem(400, "invalid-request")
	names := wrong.locations()
	slices.Sort(names)
	if want := []string{"account_id", "dry_run", "older_than", "reason", "status"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
}

func TestSwitchesAndSummary(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.get("/v1/summary", w.operator).wantStatus(200)
	if got := fmt.Sprint(a.json["switches"], a.json["broker"], a.json["oldest_unknown_seconds"]); got != "map[intake:on passes:on] map[state:closed] 0" {
		t.Errorf("summary says %s", got)
	}
	w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202)
	w.review()
	w.switched("passes", true)
	a = w.get("/v1/summary", w.operator).wantStatus(200)
	if got := fmt.Sprint(a.json["switches"], a.json["reserved_unknown"], a.json["manual_reviews_total"]); got != "map[intake:on passes:off] map[USD:250.00] 1" {
		t.Errorf("summary says %s", got)
	}
	if counts := a.json["counts"].(map[string]any); counts["UNKNOWN"] != 1.0 || counts["MANUAL_REVIEW"] != 1.0 {
		t.Errorf("counts %v", counts)
	}
	w.get("/v1/summary", w.client).wantProblem(403, "forbidden")
	put := func(name, key string, body any) *answer {
		return w.do(request{method: "PUT", path: "/v1/switches/" + name, key: key, body: body})
	}
	put("other", w.operator, fields{"paused": true}).wantProblem(404, "not-found")
	put("intake", w.client, fields{"paused": true}).wantProblem(403, "forbidden")
	put("intake", w.operator, fields{"paused": "yes"}).wantProblem(400, "invalid-request")
	put("intake", w.operator, fields{"note": "n"}).wantProblem(400, "invalid-request")
	put("intake", w.operator, fields{"paused": false}).wantStatus(200)
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	t.Run("Open", func(t *testing.T) {
		w.get("/healthz", "").wantStatus(200)
		w.get("/readyz", "").wantStatus(200)
		w.get("/metrics", "").wantStatus(200)
	})
	t.Run("Ticket", func(t *testing.T) {
		ticket := func(key string) *answer {
			return w.do(request{method: "POST", path: "/v1/stream-tickets", key: key})
		}
		a := ticket(w.client).wantStatus(201)
		if expires, err := time.Parse(time.RFC3339, a.text("expires_at")); err != nil || time.Until(expires) > time.Minute {
			t.Errorf("expires %v", expires)
		}
		ticket(w.operator).wantStatus(201)
		ticket("").wantProblem(401, "unauthorized")
	})
	t.Run("Unknown", func(t *testing.T) {
		w.get("/nothing", "").wantProblem(404, "not-found")
		w.get("/v1/nothing", w.client).wantProblem(404, "not-found")
	})
	t.Run("WrongMethod", func(t *testing.T) {
		a := w.do(request{method: "DELETE", path: "/v1/purchases", key: w.client}).wantProblem(405, "method-not-allowed")
		if allow := a.header.Values("Allow"); !slices.Equal(allow, []string{"GET", "HEAD", "POST"}) {
			t.Errorf("Allow = %v", allow)
		}
		w.do(request{method: "OPTIONS", path: "/healthz"}).wantProblem(405, "method-not-allowed")
		w.do(request{method: "POST", path: "/v1/summary", key: w.operator}).wantProblem(405, "method-not-allowed")
		w.do(request{method: "HEAD", path: "/v1/events", key: w.client}).wantStatus(405)
	})
	t.Run("EveryKeyedRouteWithoutAKey", func(t *testing.T) {
		for _, route := range []string{
			"POST /v1/purchases", "GET /v1/purchases", "GET /v1/purchases/x", "GET /v1/purchases/x/history", "GET /v1/events",
			"GET /v1/accounts/x", "POST /v1/accounts", "POST /v1/accounts/x/deposits", "POST /v1/purchases/x/resolution",
			"PUT /v1/switches/intake", "POST /v1/purchases/x/reconciliation", "POST /v1/reconciliations", "GET /v1/summary",
			"POST /v1/stream-tickets",
		} {
			method, path, _ := strings.Cut(route, " ")
			w.do(request{method: method, path: path}).wantProblem(401, "unauthorized")
		}
	})
}
