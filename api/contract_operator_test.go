package api_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

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
		w.get("/v1/%61ccounts/acct%2D1", w.client).wantStatus(200).wantText("id", "acct-1")
		w.get("/v1/accounts%2Facct-1", w.client).wantProblem(404, "not-found")
		w.get("/v1/accounts/acct-1%2f", w.client).wantProblem(404, "account-not-found")
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
	t.Run("Broker", func(t *testing.T) {
		served := w.service.Brokers().Names()[0]
		patch := func(key, id string, body any) *answer {
			return w.do(request{method: "PATCH", path: "/v1/accounts/" + id, key: key, body: body})
		}
		create(w.operator, fields{"id": "there", "currency": "USD", "broker": served, "broker_account": "customer-7"}).wantStatus(201).
			wantText("broker", served).wantText("broker_account", "customer-7")
		create(w.operator, fields{"id": "here", "currency": "USD", "broker": nil}).wantStatus(201).wantNo("broker").wantNo("broker_account")
		patch(w.operator, "here", fields{"broker_account": "customer-8"}).wantStatus(200).wantNo("broker").wantText("broker_account", "customer-8")
		patch(w.operator, "here", fields{"broker": served}).wantStatus(200).wantText("broker", served).wantText("broker_account", "customer-8")
		patch(w.operator, "here", fields{"broker": nil}).wantStatus(200).wantText("broker", served)
		patch(w.operator, "here", fields{}).wantStatus(200).wantText("available", "0.00")
		patch(w.operator, "here", fields{"broker": "", "broker_account": ""}).wantStatus(200).wantNo("broker").wantNo("broker_account")
		w.get("/v1/accounts/there", w.operator).wantText("broker", served)
		for field, value := range map[string]any{"broker": "nobody", "broker_account": "a\nb", "currency": "EUR"} {
			if a := patch(w.operator, "here", fields{field: value}).wantProblem(400, "invalid-request"); !slices.Equal(a.locations(), []string{field}) {
				t.Errorf("names %v, want %s", a.locations(), field)
			}
		}
		create(w.operator, fields{"id": "z", "currency": "USD", "broker": "nobody"}).wantProblem(400, "invalid-request")
		patch(w.client, "acct-1", fields{}).wantProblem(403, "forbidden")
		w.exec("UPDATE account SET broker = 'elsewhere' WHERE id = 'acct-1'")
		w.buy(order(nil)).wantProblem(503, "unavailable").wantRetryAfter()
		w.get("/v1/accounts/acct-1", w.client).wantText("reserved", "0.00")
		patch(w.operator, "acct-1", fields{"broker": ""}).wantStatus(200)
		w.buy(order(nil)).wantStatus(201)
		for _, id := range []string{"none", "%00"} {
			patch(w.operator, id, fields{}).wantProblem(404, "account-not-found")
		}
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
		for _, amount := range []any{"0", "-1", "1e3", "1.234", 5, nil, "", "1234567890123", "1.000", "0000000000001"} {
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
	t.Run("PassInFlight", func(t *testing.T) {
		id := w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202).text("id")
		w.exec("UPDATE transaction_history SET leased_until = now() + interval '1 minute' WHERE id = $1", id)
		resolve(id, w.operator, fields{"outcome": "rejected", "note": "n"}).wantProblem(409, "in-progress").wantRetryAfter()
		w.exec("UPDATE transaction_history SET leased_until = NULL WHERE id = $1", id)
		resolve(id, w.operator, fields{"outcome": "rejected", "note": "n"}).wantPurchase(200, "rejected")
	})
	t.Run("WrongInput", func(t *testing.T) {
		id := w.review()
		for _, body := range []fields{
			{"outcome": "completed"}, {"outcome": "completed", "note": ""}, {"outcome": "completed", "note": "  "},
			{"outcome": "rejected", "note": "n", "cost": "1"}, {"outcome": "maybe", "note": "n"}, {"note": "n"},
			{"outcome": "completed", "note": "n", "cost": "1.234"}, {"outcome": "completed", "note": "n", "cost": "1.000"}, {"outcome": "completed", "note": "n", "order_id": ""},
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
	w.exec("INSERT INTO river_queue (name, metadata, created_at, updated_at, paused_at) VALUES ('default', '{}', now(), now(), now())")
	a = w.get("/v1/summary", w.operator).wantStatus(200)
	if got := fmt.Sprint(a.json["switches"], a.json["reserved_unknown"], a.json["manual_reviews_total"]); got != "map[intake:on passes:off] map[USD:250.00] 1" {
		t.Errorf("summary says %s", got)
	}
	if got := fmt.Sprint(a.json["queues"]); got != "map[alerts:on default:paused]" {
		t.Errorf("queues are %s", got)
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
	put("intake", w.operator, fields{"paused": false}).wantStatus(200).wantNull("broker")
	put("intake", w.operator, fields{"paused": false, "broker": nil}).wantStatus(200).wantNull("broker")
}

// A switch of one broker pauses that broker only, and a misspelt name pauses nothing.
func TestSwitchesOfOneBroker(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.buy(order(fields{"symbol": "ERR500"})).wantStatus(202)
	w.exec("UPDATE transaction_history SET broker = 'other'")
	put := func(body any) *answer {
		return w.do(request{method: "PUT", path: "/v1/switches/intake", key: w.operator, body: body})
	}
	brokers := func() map[string]any {
		return w.get("/v1/summary", w.operator).wantStatus(200).json["brokers"].(map[string]any)
	}
	served := w.service.Brokers().Names()[0]
	put(fields{"paused": true, "broker": "othr"}).wantProblem(400, "invalid-request")
	put(fields{"paused": true, "broker": "other", "note": "maintenance"}).wantStatus(200).wantText("broker", "other").wantText("note", "maintenance")
	w.buy(order(nil)).wantStatus(201)
	want := map[string]any{"state": nil, "intake": "off", "passes": "on", "unknown": 1.0, "working": 0.0, "reserved_unknown": map[string]any{"USD": "250.00"}}
	if got := brokers()["other"]; !reflect.DeepEqual(got, want) {
		t.Errorf("other: %v, want %v", got, want)
	}
	put(fields{"paused": true, "broker": served}).wantStatus(200)
	w.buy(order(nil)).wantProblem(503, "unavailable")
	if got := w.get("/v1/summary", w.operator).json["switches"].(map[string]any)["intake"]; got != "on" {
		t.Errorf("the switch of all is %v", got)
	}
	if got := brokers()[served].(map[string]any); got["intake"] != "off" || got["state"] != "closed" {
		t.Errorf("served: %v", got)
	}
	put(fields{"paused": false, "broker": served}).wantStatus(200)
	w.buy(order(nil)).wantStatus(201)
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
		w.get("/v1/events?ticket=spent", "").wantProblem(401, "unauthorized").
			wantText("detail", "the ticket is unknown, used up or expired: each opens one stream within a minute")
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
		w.do(request{method: "HEAD", path: "/metrics"}).wantStatus(200)
	})
	t.Run("MethodNobodyHasHeardOf", func(t *testing.T) {
		a := w.do(request{method: "FOO", path: "/v1/summary"}).wantProblem(405, "method-not-allowed")
		if allow := a.header.Values("Allow"); !slices.Equal(allow, []string{"GET", "HEAD"}) {
			t.Errorf("Allow = %v", allow)
		}
		w.do(request{method: "FOO", path: "/v1/nothing"}).wantProblem(404, "not-found")
	})
	t.Run("EveryKeyedRouteWithoutAKey", func(t *testing.T) {
		for _, route := range []string{
			"POST /v1/purchases", "GET /v1/purchases", "GET /v1/purchases/x", "GET /v1/purchases/x/history", "GET /v1/events",
			"GET /v1/accounts/x", "PATCH /v1/accounts/x", "POST /v1/accounts", "POST /v1/accounts/x/deposits", "POST /v1/purchases/x/resolution",
			"PUT /v1/switches/intake", "POST /v1/purchases/x/reconciliation", "POST /v1/reconciliations", "GET /v1/summary",
			"POST /v1/stream-tickets",
		} {
			method, path, _ := strings.Cut(route, " ")
			w.do(request{method: method, path: path}).wantProblem(401, "unauthorized")
		}
	})
}
