package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"holdfast/broker"
	"holdfast/broker/brokertest"
	"holdfast/broker/httpbroker"
	"holdfast/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bundle struct {
	sandbox *sandbox.Sandbox
	client  *httpbroker.Client
	url     string
}

func setup(t *testing.T, timeout time.Duration) bundle {
	t.Helper()
	return start(t, sandbox.Config{Token: "secret"}, timeout)
}

func start(t *testing.T, config sandbox.Config, timeout time.Duration) bundle {
	t.Helper()
	s, err := sandbox.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = s.Close() })
	client, err := httpbroker.New(httpbroker.Config{URL: server.URL, Token: config.Token, Timeout: timeout, Idempotent: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return bundle{s, client, server.URL}
}

func some(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func order(symbol string) broker.Order {
	return broker.Order{Account: "acct-1", Symbol: symbol, Currency: "USD", Quantity: some("10"), LimitPrice: some("25.00")}
}

func (b bundle) place(t *testing.T, key string, order broker.Order) broker.Answer {
	t.Helper()
	body, err := b.client.Encode(key, order)
	if err != nil {
		t.Fatal(err)
	}
	return b.client.Place(t.Context(), broker.Request{Key: key, Body: body})
}

// story is what the first call, a lookup at once, and a replay bring for a symbol.
type story struct {
	first, lookup, replay broker.Verdict
	reason                broker.Reason // of the first call
	cost                  string        // of the lookup where it is accepted
}

const (
	acc, rej, abs = broker.Accepted, broker.Rejected, broker.Absent
	unc, pro      = broker.Uncertain, broker.Processing
)

var stories = map[string]story{
	"AAPL":               {acc, acc, acc, "", "250"},
	"TIMEOUT-BOOKED":     {unc, acc, acc, broker.Timeout, "250"},
	"TIMEOUT-LOST":       {unc, abs, acc, broker.Timeout, ""},
	"TIMEOUT-REJECTED":   {unc, rej, rej, broker.Timeout, ""},
	"DROP-BOOKED":        {unc, acc, acc, broker.ConnectionClosed, "250"},
	"DROP-LOST":          {unc, abs, acc, broker.ConnectionClosed, ""},
	"RESET-BOOKED":       {unc, acc, acc, broker.ConnectionClosed, "250"},
	"ERR500":             {unc, abs, acc, broker.Broker5xx, ""},
	"ERR500-BOOKED":      {unc, acc, acc, broker.Broker5xx, "250"},
	"ERR500-FOREVER":     {unc, abs, unc, broker.Broker5xx, ""},
	"BUSY":               {unc, abs, acc, broker.Broker5xx, ""},
	"REJECT":             {rej, abs, acc, "", ""},
	"REJECT-2XX":         {rej, rej, rej, "", ""},
	"REJECT-REPLAY":      {unc, abs, rej, broker.ConnectionClosed, ""},
	"RATE-LIMITED":       {rej, abs, acc, "", ""},
	"CREDENTIALS":        {rej, abs, acc, "", ""},
	"DUPLICATE":          {unc, acc, acc, broker.DuplicateKey, "250"},
	"LATE":               {acc, acc, acc, "", "250"},
	"LAG":                {unc, abs, acc, broker.ConnectionClosed, ""},
	"PROCESSING":         {pro, pro, pro, broker.InProcessing, ""},
	"PROCESSING-FOREVER": {pro, pro, pro, broker.InProcessing, ""},
	"REDIRECT":           {unc, abs, acc, broker.Redirect, ""},
	"GARBAGE":            {unc, acc, acc, broker.UnreadableResponse, "250"},
	"CUT":                {unc, acc, acc, broker.UnreadableResponse, "250"},
	"MISMATCH":           {unc, acc, acc, broker.Mismatch, "250"},
	"WRONG-QUANTITY":     {unc, acc, acc, broker.ConnectionClosed, "250"},
	"PRICE-BELOW-LIMIT":  {acc, acc, acc, "", "225"},
	"PRICE-ABOVE-LIMIT":  {acc, acc, acc, "", "275"},
	"PARTIAL":            {acc, acc, acc, "", "125"},
	"LAG-LOOKUPS":        {unc, abs, acc, broker.ConnectionClosed, ""},
	"GATEWAY-404":        {unc, unc, rej, broker.Broker5xx, ""},
	"WORKING-FILLED":     {pro, pro, pro, broker.InProcessing, ""},
	"WORKING-CANCELED":   {pro, pro, pro, broker.InProcessing, ""},
	"WORKING-EXPIRED":    {pro, pro, pro, broker.InProcessing, ""},
	"SECOND-ORDER":       {acc, acc, acc, "", "250"},
	"UNLISTED":           {acc, acc, acc, "", "250"},
	"REJECTED-LISTED":    {rej, acc, acc, "", "250"},
	"LISTED-COST":        {acc, acc, acc, "", "250"},
	"LISTED-QUANTITY":    {acc, acc, acc, "", "250"},
	"BOM":                {acc, acc, acc, "", "250"},
	"SPARSE":             {acc, acc, acc, "", "absent"},
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	for symbol, want := range stories {
		t.Run(symbol, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 20*time.Second)
			first := b.impatient(t, want.reason).place(t, "key", order(symbol))
			found := b.client.Lookup(t.Context(), broker.Query{Key: "key"})
			replay := b.place(t, "key", order(symbol))
			got := story{first.Verdict, found.Verdict, replay.Verdict, first.Reason, ""}
			if found.Verdict == broker.Accepted {
				got.cost = "absent"
			}
			if found.Verdict == broker.Accepted && found.Cost.Valid {
				got.cost = found.Cost.Decimal.String()
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if wrong := found.Echo.Contradicts(order(symbol)); wrong != (symbol == "WRONG-QUANTITY") {
				t.Errorf("lookup contradicts the order: %v", wrong)
			}
		})
	}
}

// impatient is the same sandbox seen by a client that gives up soon, where the first
// call is to time out.
func (b bundle) impatient(t *testing.T, reason broker.Reason) bundle {
	t.Helper()
	if reason != broker.Timeout {
		return b
	}
	client, err := httpbroker.New(httpbroker.Config{URL: b.url, Token: "secret", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	b.client = client
	return b
}

func TestEverySymbolIsValidTestedAndDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^[A-Z0-9][A-Z0-9.-]{0,19}$`)
	for _, symbol := range sandbox.Symbols() {
		if !form.MatchString(symbol.Name) {
			t.Errorf("%s is no valid symbol", symbol.Name)
		}
		if _, ok := stories[symbol.Name]; !ok {
			t.Errorf("%s has no test", symbol.Name)
		}
		if row := "| `" + symbol.Name + "` | " + symbol.Does + " | " + symbol.Ends + " |"; !bytes.Contains(page, []byte(row)) {
			t.Errorf("docs/sandbox.md lacks the row\n%s", row)
		}
	}
}

func TestNotionalOrder(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	answer := b.place(t, "key", broker.Order{Account: "a", Symbol: "AAPL", Currency: "USD", Notional: some("99.95")})
	if answer.Verdict != broker.Accepted || answer.Cost.Decimal.String() != "99.95" || answer.FilledQuantity.Valid {
		t.Fatalf("got %+v", answer)
	}
}

func TestCostIsRoundedUpToTheCurrency(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	odd := order("AAPL")
	odd.Quantity = some("0.333")
	if answer := b.place(t, "key", odd); answer.Cost.Decimal.String() != "8.33" {
		t.Fatalf("cost %s, want 8.33", answer.Cost.Decimal)
	}
}

func TestKeepsItsPromises(t *testing.T) {
	t.Parallel()
	b := setup(t, 10*time.Second)
	var n atomic.Int64
	brokertest.Promises(t, b.client, order("AAPL"), func() string { return fmt.Sprint("key-", n.Add(1)) })
	if told := b.sandbox.Ledger(""); told.Orders != len(told.Data) || told.Places <= told.Orders {
		t.Errorf("%d orders under %d keys by %d places", told.Orders, len(told.Data), told.Places)
	}
}

func TestKeyBuysOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	first := b.place(t, "key", order("AAPL"))
	again := b.place(t, "key", order("AAPL"))
	if first.OrderID == "" || again.OrderID != first.OrderID {
		t.Fatalf("order ids %q and %q", first.OrderID, again.OrderID)
	}
	other := b.place(t, "key", order("MSFT"))
	if other.Reason != broker.DuplicateKey {
		t.Fatalf("another order under the key: %+v", other)
	}
	if told := b.sandbox.Ledger(""); told.Orders != 1 || told.Places != 3 || told.Data[0].Places != 3 {
		t.Fatalf("ledger %+v", told)
	}
}

func TestBadOrdersAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	good := `{"client_order_id":"k","account":"a","symbol":"AAPL","side":"buy","quantity":"1","limit_price":"1","notional":null,"currency":"USD"}`
	for name, body := range map[string]string{
		"NoJSON": "x", "OtherKey": strings.Replace(good, `"k"`, `"x"`, 1), "Sell": strings.Replace(good, "buy", "sell", 1),
		"Both": strings.Replace(good, "null", `"5"`, 1), "Negative": strings.Replace(good, `"1"`, `"-1"`, 1),
	} {
		answer := b.client.Place(t.Context(), broker.Request{Key: "k", Body: []byte(body)})
		if answer.Verdict != broker.Rejected || answer.Code != "invalid_request" {
			t.Errorf("%s: %+v", name, answer)
		}
	}
	if answer := b.client.Place(t.Context(), broker.Request{Key: "k", Body: []byte(good)}); answer.Verdict != broker.Accepted {
		t.Errorf("the good one: %+v", answer)
	}
}

func TestLedgerSurvivesDeath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	first := start(t, sandbox.Config{Ledger: path}, 5*time.Second)
	booked := first.place(t, "booked", order("AAPL"))
	first.place(t, "lost", order("DROP-LOST"))

	// The process dies in the middle of a line: nothing is closed, the line is torn.
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"key":"` + strings.Repeat("torn", 1000)); err != nil || file.Close() != nil {
		t.Fatal(err)
	}

	for range 2 { // twice: what is written behind the torn line must be readable too
		second := start(t, sandbox.Config{Ledger: path}, 5*time.Second)
		if found := second.client.Lookup(t.Context(), broker.Query{Key: "booked"}); found.OrderID == "" || found.OrderID != booked.OrderID {
			t.Fatalf("after the restart: %+v, want order %s", found, booked.OrderID)
		}
		if replay := second.place(t, "lost", order("DROP-LOST")); replay.Verdict != broker.Accepted {
			t.Fatalf("a replay after the restart is taken for a first call: %+v", replay)
		}
		if err := second.sandbox.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedLedgerIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	if err := os.WriteFile(path, []byte("{\"key\":\"a\"}\nxxx\n{\"key\":\"b\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.New(sandbox.Config{Ledger: path}); err == nil || !strings.Contains(err.Error(), "byte 12") {
		t.Fatalf("err = %v", err)
	}
}

func TestTokenIsAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t, 5*time.Second)
	stranger, err := httpbroker.New(httpbroker.Config{URL: b.url, Token: "wrong", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if found := stranger.Lookup(t.Context(), broker.Query{Key: "a"}); !found.CredentialsRefused {
		t.Fatalf("got %+v", found)
	}
}

func TestServeEndsStalledAnswers(t *testing.T) {
	t.Parallel()
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	client, err := httpbroker.New(httpbroker.Config{URL: "http://" + listener.Addr().String(), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b := bundle{sandbox: s, client: client}
	answered := make(chan broker.Answer, 1)
	go func() { answered <- b.place(t, "key", order("TIMEOUT-BOOKED")) }()
	for deadline := time.Now().Add(10 * time.Second); s.Ledger("").Places == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the order did not arrive")
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Fatalf("Serve: %v", err)
	}
	if answer := <-answered; answer.Reason != broker.ConnectionClosed {
		t.Fatalf("the stalled call: %+v", answer)
	}
}
