package api_test

import (
	"encoding/base64"
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
		w.get("/v1/purchases?account_id=%00", w.operator).wantProblem(404, "account-not-found")
	})
	t.Run("WrongParametersAreNamed", func(t *testing.T) {
		for query, names := range map[string][]string{
			"limit=0": {"limit"}, "limit=501": {"limit"}, "limit=x": {"limit"}, "limit=": {"limit"}, "limit=%2B5": {"limit"},
			"limit=5&limit=6": {"limit"}, "status=unknown": {"status"}, "cursor=x": {"cursor"},
			"cursor=&cursor=": {"cursor"}, "status=&status=UNKNOWN": {"status"},
			"limit=-1&status=X&cursor=%00": {"limit", "status", "cursor"}, "%zz": {"query"},
			"statuss=UNKNOWN": {"statuss"}, "limit=5&Limit=6": {"Limit"}, "_=1": {"_"},
			"%ff=1": {"\uFFFD"}, "%ed%a0%80=1": {"\uFFFD"}, strings.Repeat("x", 5000) + "=1": {strings.Repeat("x", 64) + "…"},
		} {
			a := w.get("/v1/purchases?"+query, w.client).wantProblem(400, "invalid-request")
			if !slices.Equal(a.locations(), names) {
				t.Errorf("%s names %v, want %v", query, a.locations(), names)
			}
		}
		w.get("/v1/purchases?limit=500", w.client).wantStatus(200)
	})
	t.Run("ACursorRevealsNothingOfOtherAccounts", func(t *testing.T) {
		w.buy(order(fields{"quantity": "1"})).wantStatus(201)
		cursor := func(id uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
		theirs := uuid.MustParse(w.buy(order(fields{"quantity": "1"})).wantStatus(201).text("id"))
		unknown := theirs
		unknown[15]++
		for _, id := range []uuid.UUID{theirs, unknown} {
			if ids := w.get("/v1/purchases?cursor="+cursor(id), w.other).wantStatus(200).ids(); len(ids) != 0 {
				t.Errorf("after %v: %v", id, ids)
			}
		}
	})
	t.Run("WithoutTheBodiesOfAnswers", func(t *testing.T) {
		a := w.get("/v1/purchases", w.operator).wantStatus(200)
		if strings.Contains(string(a.body), `"body"`) || !strings.Contains(string(a.body), `"status_code":201`) {
			t.Errorf("body %s", a.body)
		}
	})
	t.Run("EmptyIsNotGiven", func(t *testing.T) {
		all := w.get("/v1/purchases", w.client).wantStatus(200)
		a := w.get("/v1/purchases?account_id=&status=&cursor=", w.client).wantStatus(200)
		if !slices.Equal(a.ids(), all.ids()) || len(a.ids()) == 0 {
			t.Errorf("a client sees %v, want %v", a.ids(), all.ids())
		}
		all = w.get("/v1/purchases", w.operator).wantStatus(200)
		if a = w.get("/v1/purchases?account_id=", w.operator).wantStatus(200); !slices.Equal(a.ids(), all.ids()) {
			t.Errorf("an operator sees %v, want %v", a.ids(), all.ids())
		}
	})
	t.Run("FiftyByDefaultAndFiveHundredAtMost", func(t *testing.T) {
		w.exec(`INSERT INTO transaction_history (id, account_id, idempotency_key, fingerprint, symbol, quantity, limit_price,
			currency, hold, broker, broker_key, broker_request, request_hash)
			SELECT gen_random_uuid(), account_id, 'copy-' || n, fingerprint, symbol, quantity, limit_price, currency, hold, broker, 'copy-' || n,
			broker_request, request_hash FROM transaction_history, generate_series(1, 600) n WHERE id = $1`, ids[0])
		for path, want := range map[string]int{"/v1/purchases": 50, "/v1/purchases?limit=500": 500, "/v1/purchases?limit=1": 1} {
			a := w.get(path, w.client).wantStatus(200)
			if a.json["next_cursor"] == nil || len(a.ids()) != want {
				t.Errorf("%s has %d, next %v", path, len(a.ids()), a.json["next_cursor"])
			}
		}
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
	want := []string{"PENDING client", "place uncertain", "UNKNOWN client", "lookup uncertain", "MANUAL_REVIEW worker", "mismatch", "COMPLETED operator", "resolution"}
	slices.Sort(told[5:])
	slices.Sort(want[5:])
	if !slices.Equal(told, want) {
		t.Errorf("history tells %v\nwant %v", told, want)
	}
}
