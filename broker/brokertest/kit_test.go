package brokertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/brokertest"
)

// gullible is the adapter that one writes in an afternoon: the default client, a look
// at the status, trust in the rest.
type gullible struct {
	url     string
	timeout time.Duration
}

func (g gullible) Capabilities() broker.Capabilities {
	return broker.Capabilities{Name: "gullible", Idempotent: true}
}

func (g gullible) Encode(key string, _ broker.Order) ([]byte, error) {
	return fmt.Appendf(nil, `{"key":%q,"at":%d}`, key, time.Now().UnixNano()), nil
}

func (g gullible) Place(ctx context.Context, request broker.Request) broker.Answer {
	return g.call(ctx, http.MethodPost, request.Key, bytes.NewReader(request.Body))
}

func (g gullible) Lookup(ctx context.Context, query broker.Query) broker.Answer {
	return g.call(ctx, http.MethodGet, query.Key, http.NoBody)
}

func (g gullible) call(ctx context.Context, method, key string, body io.Reader) broker.Answer {
	request, err := http.NewRequestWithContext(ctx, method, g.url+"/"+key, body)
	if err != nil {
		return broker.Answer{Verdict: broker.NotSent}
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return broker.Answer{Verdict: broker.Rejected}
	}
	defer func() { _ = response.Body.Close() }()
	var told struct{ ID string }
	_ = json.NewDecoder(response.Body).Decode(&told)
	if response.StatusCode < 300 {
		return broker.Answer{Verdict: broker.Accepted, OrderID: told.ID, StatusCode: response.StatusCode}
	}
	return broker.Answer{Verdict: broker.Rejected, StatusCode: response.StatusCode}
}

// TestKitFindsAGullibleAdapter runs the kit on an adapter that breaks about every rule,
// in a process of its own, and wants each part to have found something.
func TestKitFindsAGullibleAdapter(t *testing.T) {
	t.Parallel()
	if os.Getenv("BROKERTEST_GULLIBLE") != "" {
		brokertest.Exercise(t, gullibleDialect())
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKitFindsAGullibleAdapter$", "-test.timeout=2m", "-test.parallel=64")
	command.Env = append(os.Environ(), "BROKERTEST_GULLIBLE=1")
	output, err := command.CombinedOutput()
	if err == nil {
		t.Fatalf("the kit finds nothing wrong:\n%s", output)
	}
	for _, part := range []string{
		"Encode", "FirstCall/Empty", "FirstCall/OtherKey", "FirstCall/InternalError", "FirstCall/Silence", "FirstCall/Conflict", "FirstCall/DuplicateKey",
		"Lookup/NotFound", "Lookup/GatewayHTML", "Lookup/Unauthorized", "OneRequest/CloseReused", "OneRequest/TemporaryRedirectFresh", "CutAnywhere", "NotSent", "SendBefore",
		"Deadline", "RedirectIsNotFollowed", "OtherQuantity", "Memory/Lags", "Memory/StoresErrors", "Promises/UnknownKeyIsAbsent",
	} {
		if !strings.Contains(string(output), "--- FAIL: TestKitFindsAGullibleAdapter/"+part+" ") {
			t.Errorf("%s found nothing", part)
		}
	}
	if t.Failed() {
		t.Logf("%s", output)
	}
}

func gullibleDialect() brokertest.Dialect {
	says := func(word string) func(string, broker.Order) string {
		return func(key string, _ broker.Order) string { return fmt.Sprintf(`{"id":%q,"word":%q}`, key, word) }
	}
	return brokertest.Dialect{
		New: func(_ testing.TB, url string, timeout time.Duration) broker.Broker {
			return gullible{url, timeout}
		},
		Order: broker.Order{
			Symbol: "AAPL", Currency: "USD",
			Quantity: decimal.NewNullDecimal(decimal.NewFromInt(10)), LimitPrice: decimal.NewNullDecimal(decimal.NewFromInt(25)),
		},
		Completed: says("completed"), Rejected: says("rejected"), Processing: says("processing"), Strange: says("strange"),
		NotFound: func(string) string { return `{"code":"none"}` },
		Refusal:  `{"code":"no"}`, RefusalCode: "no", DuplicateStatus: 422, Duplicate: `{"code":"duplicate"}`,
		Read: func(r brokertest.Request) (string, bool) {
			return strings.TrimPrefix(r.Path, "/"), r.Method == http.MethodPost
		},
	}
}
