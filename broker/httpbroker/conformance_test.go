package httpbroker_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/brokertest"
	"holdfast/broker/httpbroker"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	brokertest.Exercise(t, dialect())
}

// dialect describes this adapter's wire to the kit.
func dialect() brokertest.Dialect {
	return brokertest.Dialect{
		New: func(t testing.TB, url string, timeout time.Duration) broker.Broker {
			client, err := httpbroker.New(httpbroker.Config{URL: url, Timeout: timeout, Idempotent: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			return client
		},
		Order:      shares(),
		Completed:  echoes("completed"),
		Rejected:   echoes("rejected"),
		Processing: echoes("processing"),
		Strange:    echoes("flabbergasted"),
		Terse: []func(string, broker.Order) string{
			says("completed", `"cost":"","filled_quantity":"","notional":"","quantity":"","limit_price":""`),
			says("completed", `"cost":null,"filled_quantity":null,"notional":null,"symbol":null`),
			says("completed", `"notional":"0.00","quantity":0,"limit_price":"0"`),
			says("completed", ``),
		},
		NotFound: func(key string) string {
			return fmt.Sprintf(`{"code":"order_not_found","client_order_id":%q,"message":"no such order"}`, key)
		},
		Page: func(created time.Time, orders ...string) string {
			for i, order := range orders {
				orders[i] = strings.Replace(order, "{", fmt.Sprintf(`{"created_at":%q,`, created.Format(time.RFC3339Nano)), 1)
			}
			return `{"orders":[` + strings.Join(orders, ",") + `],"next_cursor":null}`
		},
		Refusal:         `{"code":"market_closed","message":"come back"}`,
		RefusalCode:     "market_closed",
		DuplicateStatus: http.StatusUnprocessableEntity,
		Duplicate:       `{"code":"duplicate_order"}`,
		Read:            readRequest,
	}
}

// echoes repeats the order.
func echoes(status string) func(string, broker.Order) string {
	return func(key string, order broker.Order) string {
		return says(status, fmt.Sprintf(`"symbol":%q,"quantity":%q,"limit_price":%q`, order.Symbol, order.Quantity.Decimal, order.LimitPrice.Decimal))(key, order)
	}
}

func says(status, members string) func(string, broker.Order) string {
	if members != "" {
		members = "," + members
	}
	return func(key string, _ broker.Order) string {
		return fmt.Sprintf(`{"order_id":"id-of-%[1]s","client_order_id":%[1]q,"status":%[2]q%[3]s}`, key, status, members)
	}
}

func readRequest(request brokertest.Request) (string, bool) {
	if request.Method == http.MethodPost {
		return request.Header.Get("Idempotency-Key"), true
	}
	key, _ := url.PathUnescape(request.Path[strings.LastIndex(request.Path, "/")+1:])
	return key, false
}
