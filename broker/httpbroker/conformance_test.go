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
		Order:           shares(),
		Completed:       says("completed"),
		Rejected:        says("rejected"),
		Processing:      says("processing"),
		Strange:         says("flabbergasted"),
		Refusal:         `{"code":"market_closed","message":"come back"}`,
		RefusalCode:     "market_closed",
		DuplicateStatus: http.StatusUnprocessableEntity,
		Duplicate:       `{"code":"duplicate_order"}`,
		Read:            readRequest,
	}
}

func says(status string) func(string, broker.Order) string {
	return func(key string, order broker.Order) string {
		return fmt.Sprintf(`{"order_id":"id-of-%[1]s","client_order_id":%[1]q,"status":%[2]q,"symbol":%[3]q,"quantity":%[4]q,"limit_price":%[5]q}`,
			key, status, order.Symbol, order.Quantity.Decimal, order.LimitPrice.Decimal)
	}
}

func readRequest(request brokertest.Request) (string, bool) {
	if request.Method == http.MethodPost {
		return request.Header.Get("Idempotency-Key"), true
	}
	key, _ := url.PathUnescape(request.Path[strings.LastIndex(request.Path, "/")+1:])
	return key, false
}
