package metrics_test

import (
	"bufio"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/broker"
	"holdfast/internal/metrics"
	"holdfast/internal/testkit/pgtest"
	"holdfast/purchase"
)

func setup(t *testing.T) (*metrics.Metrics, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.New(t)
	return metrics.New(metrics.Params{
		Pool:        pool,
		Log:         slog.New(slog.DiscardHandler),
		Subscribers: func() int { return 3 },
		Breaker:     func() broker.State { return broker.HalfOpen },
		InFlight:    func() int { return 2 },
	}), pool
}

// scrape returns every series with its value.
func scrape(t *testing.T, m *metrics.Metrics) map[string]string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	series := map[string]string{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if name, value, ok := cutLast(lines.Text()); ok && !strings.HasPrefix(name, "#") {
			series[name] = value
		}
	}
	return series
}

func cutLast(line string) (string, string, bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

func expect(t *testing.T, series map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got, ok := series[name]; !ok || got != value {
			t.Errorf("%s = %q (there: %t), want %s", name, got, ok, value)
		}
	}
}

// Every series of the contract whose labels are known is there before anything happens.
func TestSeriesStartAtZero(t *testing.T) {
	t.Parallel()
	m, _ := setup(t)
	expect(t, scrape(t, m), map[string]string{
		"holdfast_unknown_purchases":                              "0",
		"holdfast_pending_purchases":                              "0",
		"holdfast_manual_review_purchases":                        "0",
		"holdfast_oldest_due_retry_seconds":                       "0",
		"holdfast_oldest_unknown_seconds":                         "0",
		"holdfast_event_lag_seconds":                              "0",
		"holdfast_database_up":                                    "1",
		"holdfast_stream_subscribers":                             "3",
		"holdfast_broker_calls_in_flight":                         "2",
		"holdfast_manual_reviews_total":                           "0",
		"holdfast_contradictions_total":                           "0",
		`holdfast_breaker_state{state="half_open"}`:               "1",
		`holdfast_breaker_state{state="closed"}`:                  "0",
		`holdfast_purchases_total{status="manual_review"}`:        "0",
		`holdfast_reconcile_passes_total{result="lost_race"}`:     "0",
		`holdfast_reconcile_passes_total{result="manual_review"}`: "0",
		`holdfast_orphans_repaired_total{kind="pending"}`:         "0",
		`holdfast_orphans_repaired_total{kind="job"}`:             "0",
	})
}

func TestCounts(t *testing.T) {
	t.Parallel()
	m, _ := setup(t)
	m.StatusChanged(purchase.Completed)
	m.StatusChanged(purchase.ManualReview)
	m.PassEnded("deferred")
	m.OrphanRepaired("job")
	m.Contradiction()
	m.BrokerCall("place", "accepted", 40*time.Millisecond)
	m.HTTPRequest("/v1/purchases/{id}", http.MethodGet, 200, 2*time.Millisecond)
	m.HTTPRequest("", "BREW", 405, time.Millisecond)
	expect(t, scrape(t, m), map[string]string{
		`holdfast_purchases_total{status="completed"}`:                                                                "1",
		`holdfast_purchases_total{status="manual_review"}`:                                                            "1",
		"holdfast_manual_reviews_total":                                                                               "1",
		`holdfast_reconcile_passes_total{result="deferred"}`:                                                          "1",
		`holdfast_orphans_repaired_total{kind="job"}`:                                                                 "1",
		"holdfast_contradictions_total":                                                                               "1",
		`holdfast_broker_request_duration_seconds_bucket{call="place",result="accepted",le="0.05"}`:                   "1",
		`holdfast_broker_request_duration_seconds_bucket{call="place",result="accepted",le="0.025"}`:                  "0",
		`holdfast_http_request_duration_seconds_count{code="200",method="GET",route="/v1/purchases/{id}"}`:            "1",
		`holdfast_http_request_duration_seconds_count{code="405",method="OTHER",route="unmatched"}`:                   "1",
		`holdfast_http_request_duration_seconds_bucket{code="200",method="GET",route="/v1/purchases/{id}",le="+Inf"}`: "1",
	})
}

const open = `
INSERT INTO account (id, currency) VALUES ('a', 'USD');
INSERT INTO transaction_history (id, account_id, idempotency_key, fingerprint, status, version, symbol, notional,
    currency, hold, reason, broker, broker_key, broker_request, request_hash, next_retry, unknown_since)
SELECT gen_random_uuid(), 'a', n::text, '', status, CASE status WHEN 'PENDING' THEN 1 ELSE 2 END, 'X', 1, 'USD', 1,
       CASE status WHEN 'PENDING' THEN NULL ELSE 'timeout' END, 'http', n::text, '', '',
       CASE status WHEN 'UNKNOWN' THEN now() - interval '100 seconds' + n * interval '200 seconds' END,
       CASE status WHEN 'UNKNOWN' THEN now() - interval '1000 seconds' END
FROM unnest(ARRAY['UNKNOWN', 'UNKNOWN', 'PENDING', 'MANUAL_REVIEW', 'MANUAL_REVIEW', 'MANUAL_REVIEW'])
     WITH ORDINALITY AS s (status, m), LATERAL (SELECT m - 1 AS n) AS o;
INSERT INTO outbox (transaction_id, account_id, version, status, previous_status, occurred_at)
VALUES (gen_random_uuid(), 'a', 2, 'UNKNOWN', 'PENDING', now() - interval '7 seconds');
`

func TestGaugesOfTheDatabase(t *testing.T) {
	t.Parallel()
	m, pool := setup(t)
	if _, err := pool.Exec(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	series := scrape(t, m)
	expect(t, series, map[string]string{
		"holdfast_unknown_purchases":       "2",
		"holdfast_pending_purchases":       "1",
		"holdfast_manual_review_purchases": "3",
	})
	for name, prefix := range map[string]string{
		"holdfast_oldest_due_retry_seconds": "10", // 100 and a little
		"holdfast_oldest_unknown_seconds":   "10", // 1000 and a little
		"holdfast_event_lag_seconds":        "7.",
	} {
		if !strings.HasPrefix(series[name], prefix) {
			t.Errorf("%s = %s, want %s...", name, series[name], prefix)
		}
	}
}

// Without a database the counters are served all the same, in time, and the gauges are
// missing.
func TestScrapeWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	m := metrics.New(metrics.Params{Pool: pool, Log: slog.New(slog.DiscardHandler)})
	m.PassEnded("completed")
	start := time.Now()
	series := scrape(t, m)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	expect(t, series, map[string]string{
		"holdfast_database_up": "0", "holdfast_stream_subscribers": "0",
		`holdfast_reconcile_passes_total{result="completed"}`: "1",
	})
	if value, there := series["holdfast_unknown_purchases"]; there {
		t.Errorf("holdfast_unknown_purchases = %s", value)
	}
}

// Many scrapes within a second ask the database once.
func TestGaugesAreCached(t *testing.T) {
	t.Parallel()
	m, pool := setup(t)
	scrape(t, m)
	before := pool.Stat().AcquireCount()
	start := time.Now()
	for range 20 {
		scrape(t, m)
	}
	if asked := pool.Stat().AcquireCount() - before; asked > 1+int64(time.Since(start)/time.Second) {
		t.Errorf("asked %d times in %s", asked, time.Since(start))
	}
}

func TestOpenFindingsAreCountedByBrokerAndKind(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	m := metrics.New(metrics.Params{Pool: pool, Log: slog.New(slog.DiscardHandler), Brokers: []string{"sandbox"}})
	for i, kind := range []string{"unknown_order", "unknown_order", "cost_differs"} {
		_, err := pool.Exec(t.Context(), `
			INSERT INTO statement_finding (id, broker, kind, subject, broker_key, detail, closed_at, note, closed_by)
			SELECT gen_random_uuid(), 'old', $1::text, $2::text, 'hf-0', 'detail',
			       CASE WHEN $1 = 'cost_differs' THEN now() END, CASE WHEN $1 = 'cost_differs' THEN 'n' END,
			       CASE WHEN $1 = 'cost_differs' THEN 'operator:x' END`, kind, strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
	}
	expect(t, scrape(t, m), map[string]string{
		`holdfast_open_findings{broker="old",kind="unknown_order"}`:     "2",
		`holdfast_open_findings{broker="old",kind="cost_differs"}`:      "0",
		`holdfast_open_findings{broker="sandbox",kind="unknown_order"}`: "0",
		`holdfast_open_findings{broker="sandbox",kind="second_order"}`:  "0",
	})
}
