package httpbroker_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
)

// BenchmarkPlace is what the adapter costs a purchase, beside a broker that costs
// nearly nothing.
func BenchmarkPlace(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"order_id":"1","client_order_id":%q,"status":"completed","cost":"250.00"}`, r.Header.Get("Idempotency-Key"))
	}))
	b.Cleanup(server.Close)
	client, err := httpbroker.New(httpbroker.Config{URL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	body, err := client.Encode(key, shares())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if answer := client.Place(b.Context(), broker.Request{Key: key, Body: body}); answer.Verdict != broker.Accepted {
				b.Errorf("got %s %s", answer.Verdict, answer.Reason)
			}
		}
	})
}
