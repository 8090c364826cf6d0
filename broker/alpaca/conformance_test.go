package alpaca_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/alpaca"
	"holdfast/broker/brokertest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	dialect := dialect()
	dialect.New = func(t testing.TB, url string, timeout time.Duration) broker.Broker {
		return newClient(t, config(url, timeout))
	}
	brokertest.Exercise(t, dialect)
}

func TestBrokerAPIConformance(t *testing.T) {
	t.Parallel()
	dialect := dialect()
	dialect.New = func(t testing.TB, url string, timeout time.Duration) broker.Broker {
		return newBrokerClient(t, url, timeout)
	}
	brokertest.Exercise(t, dialect)
}

func newBrokerClient(t testing.TB, url string, timeout time.Duration) *alpaca.BrokerClient {
	t.Helper()
	client, err := alpaca.NewBroker(config(url, timeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// dialect describes the wire that both APIs have in common.
func dialect() brokertest.Dialect {
	return brokertest.Dialect{
		Order: shares(),
		Completed: func(key string, order broker.Order) string {
			return said(key, order, "filled", order.Quantity.Decimal.String(), "24.99")
		},
		Rejected:   unfilled("rejected"),
		Processing: unfilled("accepted"),
		Strange:    unfilled("flabbergasted"),
		Terse: []func(string, broker.Order) string{
			func(key string, order broker.Order) string {
				return fmt.Sprintf(`{"id":"1","client_order_id":%q,"status":"filled","filled_qty":"10","filled_avg_price":"25","notional":"","symbol":null}`, key)
			},
			func(key string, order broker.Order) string {
				return fmt.Sprintf(`{"id":"1","client_order_id":%q,"status":"filled","filled_qty":"10","filled_avg_price":"25","notional":"0.00","limit_price":"0"}`, key)
			},
		},
		NotFound: func(key string) string {
			return fmt.Sprintf(`{"code":40410000,"message":"order not found for %s"}`, key)
		},
		Refusal:         `{"code":42210000,"message":"invalid limit_price"}`,
		RefusalCode:     "42210000",
		DuplicateStatus: http.StatusUnprocessableEntity,
		Duplicate:       `{"code":40010001,"message":"client_order_id must be unique"}`,
		Read:            readRequest,
		Page: func(_ time.Time, orders ...string) string {
			return "[" + strings.Join(orders, ",") + "]" // said has the time
		},
	}
}

// TestBrokerAPIOnTheWire: the account is in the path, escaped, and the key is Basic.
func TestBrokerAPIOnTheWire(t *testing.T) {
	t.Parallel()
	server := brokertest.NewServer(t)
	server.Standing(brokertest.Answer(404, ""))
	client := newBrokerClient(t, server.URL()+"/v1/", 10*time.Second)
	const account = "c0d3/1"
	client.Place(t.Context(), broker.Request{Key: key, Account: account, Body: []byte("{}")})
	client.Lookup(t.Context(), broker.Query{Key: key, Account: account})
	requests := server.Await(t, 2)
	for i, want := range []string{"/v1/trading/accounts/c0d3%2F1/orders", "/v1/trading/accounts/c0d3%2F1/orders:by_client_order_id?client_order_id=" + key} {
		if requests[i].Path != want || requests[i].Header.Get("Authorization") != "Basic aWQ6c2VjcmV0" || requests[i].Header.Get("Apca-Api-Key-Id") != "" {
			t.Errorf("%s with %v, want %s", requests[i].Path, requests[i].Header, want)
		}
	}
}

// TestBrokerAPINeedsAnAccount: without one there is no address, and nothing is sent.
func TestBrokerAPINeedsAnAccount(t *testing.T) {
	t.Parallel()
	server := brokertest.NewServer(t)
	client := newBrokerClient(t, server.URL(), 10*time.Second)
	order := shares()
	order.Account = ""
	if _, err := client.Encode(key, order); err == nil {
		t.Error("an order without an account is encoded")
	}
	placed := client.Place(t.Context(), broker.Request{Key: key, Body: []byte("{}")})
	found := client.Lookup(t.Context(), broker.Query{Key: key})
	if placed.Verdict != broker.NotSent || found.Verdict != broker.NotSent || len(server.Requests()) != 0 {
		t.Errorf("%s, %s, %d requests", placed.Verdict, found.Verdict, len(server.Requests()))
	}
}

// TestNotFoundMustBeAboutTheOrder: Alpaca has one code for whatever is not found.
func TestNotFoundMustBeAboutTheOrder(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]broker.Verdict{
		"order not found for " + key: broker.Absent, "Order not found.": broker.Absent,
		"order not found for another": broker.Uncertain, "account not found": broker.Uncertain,
		"asset not found for AAPL": broker.Uncertain, "Not Found": broker.Uncertain, "": broker.Uncertain,
	} {
		server := brokertest.NewServer(t)
		server.Standing(brokertest.Answer(404, fmt.Sprintf(`{"code":40410000,"message":%q}`, message)))
		if found := newClient(t, config(server.URL(), 10*time.Second)).Lookup(t.Context(), broker.Query{Key: key}); found.Verdict != want {
			t.Errorf("%q: %s, want %s", message, found.Verdict, want)
		}
	}
}

// TestCurrencyPair: an order for BTCUSD comes back as one for BTC/USD.
func TestCurrencyPair(t *testing.T) {
	t.Parallel()
	pair := shares()
	pair.Symbol = "BTC/USD"
	server := brokertest.NewServer(t)
	server.Standing(brokertest.Answer(200, said(key, pair, "filled", "10", "25")))
	placed := newClient(t, config(server.URL(), 10*time.Second)).Place(t.Context(), broker.Request{Key: key, Body: []byte("{}")})
	pair.Symbol = "BTCUSD"
	if placed.Verdict != broker.Accepted || placed.Echo.Contradicts(pair) {
		t.Errorf("%s, %s", placed.Verdict, placed.Echo.Contradiction(pair))
	}
}

// listedOrder is as much of an order as a list needs.
type listedOrder struct {
	ID            string    `json:"id"`
	ClientOrderID string    `json:"client_order_id"`
	Status        string    `json:"status"`
	Side          string    `json:"side"`
	CreatedAt     time.Time `json:"created_at"`
	SubmittedAt   time.Time `json:"submitted_at"`
	FilledQty     string    `json:"filled_qty"`
	FilledPrice   string    `json:"filled_avg_price"`
}

// listed serves orders as Alpaca does: by submission time, at most 500 a page.
func listed(t *testing.T, orders []listedOrder) *alpaca.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		after, _ := time.Parse(time.RFC3339Nano, query.Get("after"))
		until, _ := time.Parse(time.RFC3339Nano, query.Get("until"))
		if r.URL.Path != "/v2/orders" || query.Get("status") != "all" || query.Get("direction") != "asc" || query.Get("limit") != "500" {
			t.Errorf("asked %s", r.URL)
		}
		page := slices.DeleteFunc(slices.Clone(orders), func(o listedOrder) bool {
			return !o.SubmittedAt.After(after) || !o.SubmittedAt.Before(until)
		})
		_ = json.NewEncoder(w).Encode(page[:min(len(page), 500)])
	}))
	t.Cleanup(server.Close)
	return newClient(t, config(server.URL, 10*time.Second))
}

// TestListReadsEveryPage: orders of the same moment on both sides of a page's end are all
// read, and sales are left out.
func TestListReadsEveryPage(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 16, 14, 30, 0, 0, time.UTC)
	var orders []listedOrder
	for n := range 1700 {
		at := start.Add(time.Duration(n/10) * 10 * time.Millisecond)
		o := listedOrder{strconv.Itoa(n), "hf-" + strconv.Itoa(n), "filled", "buy", at, at, "1", "2.5"}
		if n%100 == 0 {
			o.Side = "sell"
		}
		orders = append(orders, o)
	}
	client := listed(t, orders)
	window := broker.Window{Since: start, Until: start.Add(time.Hour)}
	seen := map[string]int{}
	for pages := 0; ; pages++ {
		page, err := client.List(t.Context(), window)
		if err != nil || pages > 5 {
			t.Fatalf("page %d: %v", pages+1, err)
		}
		for _, o := range page.Orders {
			seen[o.OrderID]++
		}
		if window.Cursor = page.NextCursor; window.Cursor == "" {
			break
		}
	}
	if len(seen) != 1683 {
		t.Errorf("%d orders, want 1683", len(seen))
	}
}

// TestListWithoutProgress: more orders of one moment than fit a page cannot be read, and
// must not be read for ever.
func TestListWithoutProgress(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 16, 14, 30, 0, 0, time.UTC)
	orders := make([]listedOrder, 600)
	for n := range orders {
		orders[n] = listedOrder{strconv.Itoa(n), "hf-" + strconv.Itoa(n), "filled", "buy", start, start, "1", "2.5"}
	}
	if page, err := listed(t, orders).List(t.Context(), broker.Window{Since: start, Until: start.Add(time.Hour)}); err == nil {
		t.Errorf("read %d orders, next %s", len(page.Orders), page.NextCursor)
	}
}
