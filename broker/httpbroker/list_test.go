package httpbroker_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
)

// listing returns a client of a broker that answers a list with status and body, and the
// queries it was asked with.
func listing(t *testing.T, status int, body string) (client *httpbroker.Client, queries *[]string) {
	t.Helper()
	queries = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*queries = append(*queries, r.URL.Path+"?"+r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	client, err := httpbroker.New(httpbroker.Config{URL: server.URL, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, queries
}

const listedKey = "hf-0123456789abcdef0123456789abcdef"

func TestListReadsAPage(t *testing.T) {
	t.Parallel()
	client, queries := listing(t, 200, "\ufeff"+`{"next_cursor":"p&2","x":1,"x":2,"orders":[
		{"order_id":8389765929445198309,"client_order_id":"`+listedKey+`","account":"acct-1","status":"completed","cost":"250.00",
		 "symbol":"AAPL","quantity":"10","created_at":"2026-11-30T10:00:00.5Z","more":1},
		{"order_id":"8","client_order_id":"`+listedKey+`","status":"rejected","code":"x","created_at":"2026-11-30T10:00:01Z"},
		{"order_id":"9","client_order_id":"`+listedKey+`","status":"held","created_at":"2026-11-30T10:00:02+01:00"},
		{"order_id":{},"client_order_id":null,"status":7,"created_at":"2026-11-30T10:00:03Z"}]}`)
	since := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	page, err := client.List(t.Context(), broker.Window{Since: since, Until: since.Add(time.Hour), Cursor: "p 1"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "/v1/orders?cursor=p+1&since=2026-11-30T09%3A00%3A00Z&until=2026-11-30T10%3A00%3A00Z"; (*queries)[0] != want {
		t.Errorf("asked %s, want %s", (*queries)[0], want)
	}
	if len(page.Orders) != 4 || page.NextCursor != "p&2" {
		t.Fatalf("page %+v", page)
	}
	first := page.Orders[0]
	if first.OrderID != "8389765929445198309" || first.Key != listedKey || first.Account != "acct-1" || first.Status != broker.Accepted ||
		first.Cost.Decimal.String() != "250" || !first.CreatedAt.Equal(since.Add(time.Hour+500*time.Millisecond)) || *first.Echo.Symbol != "AAPL" {
		t.Errorf("first order %+v", first)
	}
	for i, want := range []broker.Verdict{broker.Accepted, broker.Rejected, broker.Uncertain} {
		if page.Orders[i].Status != want {
			t.Errorf("order %d is %s, want %s", i, page.Orders[i].Status, want)
		}
	}
	if foreign := page.Orders[3]; foreign.Key != "" || foreign.CreatedAt.IsZero() {
		t.Errorf("foreign order %+v", foreign)
	}
}

func TestListRefusesAPageThatIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"Cut": `{"orders":[`, "Empty": ``, "NoOrders": `{"next_cursor":null}`, "NotAList": `{"orders":{}}`,
		"OrdersTwice": `{"orders":[],"orders":[]}`, "CursorTwice": `{"orders":[],"next_cursor":null,"next_cursor":null}`,
		"Followed": `{"orders":[]}{}`, "HugeCursor": `{"orders":[],"next_cursor":"` + strings.Repeat("x", 5000) + `"}`,
		"KeyTwice":       `{"orders":[{"order_id":"1","client_order_id":"` + listedKey + `","client_order_id":"x","status":"completed","created_at":"2026-11-30T10:00:00Z"}]}`,
		"CursorIsNoText": `{"orders":[],"next_cursor":5}`,
		"NoTime":         `{"orders":[{"order_id":"1","client_order_id":"` + listedKey + `","status":"completed"}]}`,
		"NoOrderID":      `{"orders":[{"client_order_id":"` + listedKey + `","status":"completed","created_at":"2026-11-30T10:00:00Z"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := listing(t, 200, body)
			if page, err := client.List(t.Context(), broker.Window{}); err == nil {
				t.Errorf("read %+v", page)
			}
		})
	}
}

func TestListOfABrokerWithoutOne(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 405, 501} {
		client, _ := listing(t, status, "no such route")
		if _, err := client.List(t.Context(), broker.Window{}); !errors.Is(err, broker.ErrCannotList) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	client, _ := listing(t, 500, "oops")
	if _, err := client.List(t.Context(), broker.Window{}); err == nil || errors.Is(err, broker.ErrCannotList) {
		t.Errorf("status 500: %v", err)
	}
}
