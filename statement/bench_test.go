package statement_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/statement"
)

// BenchmarkMatchDay matches a day of 100,000 orders over HTTP while purchases go on:
// docs/capacity.md has its figures.
func BenchmarkMatchDay(bench *testing.B) {
	for bench.Loop() {
		took, slowest := matchDay(bench, 100_000)
		bench.ReportMetric(took.Seconds(), "s/match")
		bench.ReportMetric(float64(slowest.Milliseconds()), "ms/slowest-purchase")
	}
}

// Purchases go on while a long list is matched: a match holds no lock that they wait for.
func TestPurchasesGoOnWhileALongListIsMatched(t *testing.T) {
	t.Parallel()
	if _, slowest := matchDay(t, 5_000); slowest > 30*time.Second {
		t.Errorf("a purchase took %s", slowest)
	}
}

// matchDay matches a list of as many orders, one every 0.8 seconds, and returns how long that
// took and how long the slowest purchase meanwhile.
func matchDay(t testing.TB, orders int) (took, slowest time.Duration) {
	t.Helper()
	const pageSize = 500
	b := setup(t)
	b.exec(`INSERT INTO transaction_history
	        SELECT copied.*
	        FROM transaction_history t,
	             (SELECT n, now() - interval '10 minutes' - n * interval '800 milliseconds' AS at FROM generate_series(1, $2::integer) n) day,
	             jsonb_populate_record(t, jsonb_build_object(
	            'id', (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000' || 'a000' || lpad(to_hex(n), 12, '0'))::uuid,
	            'idempotency_key', 'day-' || n, 'broker_key', 'hf-' || lpad(to_hex(n), 32, '0'), 'broker_order_id', 'day-' || n,
	            'created_at', at, 'updated_at', at, 'settled_at', at)) copied
	        WHERE t.id = $1`, b.template, orders)
	b.exec("ANALYZE transaction_history")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since, _ := time.Parse(time.RFC3339, r.FormValue("since"))
		until, _ := time.Parse(time.RFC3339, r.FormValue("until"))
		_, _ = w.Write(dayPage(since, until, r.FormValue("cursor"), orders, pageSize))
	}))
	t.Cleanup(server.Close)
	client, err := httpbroker.New(httpbroker.Config{Name: "test", URL: server.URL, Timeout: 10 * time.Second, Settle: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b.params.Broker, b.params.Gate = client, broker.NewGate(broker.GateConfig{Rate: 200})
	b.Matcher = statement.New(b.params)

	stop := b.buyMeanwhile()
	began := time.Now()
	b.turn()
	took = time.Since(began)
	slowest = stop()
	b.wantOpen()
	if b.count("SELECT count(*) FROM statement_match WHERE failures = 0 AND matched_until > now() - interval '10 minutes'") != 1 {
		t.Error("the day was not matched to its end")
	}
	return took, slowest
}

// buyMeanwhile buys one purchase after another until the returned function is called, which
// returns how long the slowest of them took.
func (b *bundle) buyMeanwhile() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(b.t.Context())
	longest := make(chan time.Duration)
	go func() {
		var slowest time.Duration
		for ctx.Err() == nil {
			began := time.Now()
			b.buy()
			slowest = max(slowest, time.Since(began))
		}
		longest <- slowest
	}()
	return func() time.Duration { cancel(); return <-longest }
}

// dayPage is a page of a list in which order n was created n * 800 ms before ten minutes ago.
func dayPage(since, until time.Time, cursor string, orders, size int) []byte {
	at := func(n int) time.Time { return dayEnd.Add(-time.Duration(n) * 800 * time.Millisecond) }
	from, _ := strconv.Atoi(cursor)
	var page []string
	next := "null"
	for n := max(from, 1); n <= orders; n++ {
		if at(n).Before(since) || !at(n).Before(until) {
			continue
		}
		if len(page) == size {
			next = strconv.Quote(strconv.Itoa(n))
			break
		}
		page = append(page, fmt.Sprintf(
			`{"order_id":"day-%d","client_order_id":"hf-%032x","account":"acct-1","status":"completed","cost":"250.00","filled_quantity":"10","symbol":"AAPL","quantity":"10","limit_price":"25.00","created_at":%q}`,
			n, n, at(n).UTC().Format(time.RFC3339Nano)))
	}
	return []byte(`{"orders":[` + strings.Join(page, ",") + `],"next_cursor":` + next + `}`)
}

var dayEnd = time.Now().Add(-10 * time.Minute)
