package alpaca_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"holdfast/broker"
	"holdfast/broker/alpaca"
	"holdfast/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "hf-0198f2c4"

func some(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func shares() broker.Order {
	return broker.Order{Account: "acct-1", Symbol: "AAPL", Currency: "USD", Quantity: some("10"), LimitPrice: some("25.00")}
}

func config(url string, timeout time.Duration) alpaca.Config {
	return alpaca.Config{BaseURL: url, KeyID: "id", Secret: "secret", Timeout: timeout}
}

func newClient(t testing.TB, config alpaca.Config) *alpaca.Client {
	t.Helper()
	client, err := alpaca.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// said is an order entity in Alpaca's form, with its own nulls and superfluous members.
func said(key string, order broker.Order, status, filled, price string) string {
	quoted := func(d decimal.NullDecimal) string {
		if !d.Valid {
			return "null"
		}
		return `"` + d.Decimal.String() + `"`
	}
	if price != "null" {
		price = `"` + price + `"`
	}
	return fmt.Sprintf(`{"id":"61e69015-%s","client_order_id":%q,"created_at":"2026-03-16T18:38:01.942282Z","expired_at":null,
"asset_class":"us_equity","symbol":%q,"notional":%s,"qty":%s,"filled_qty":%q,"filled_avg_price":%s,"order_class":"","type":"limit",
"side":"buy","time_in_force":"ioc","limit_price":%s,"stop_price":null,"status":%q,"extended_hours":false,"legs":null}`,
		key, key, order.Symbol, quoted(order.Notional), quoted(order.Quantity), filled, price, quoted(order.LimitPrice), status)
}

func unfilled(status string) func(string, broker.Order) string {
	return func(key string, order broker.Order) string { return said(key, order, status, "0", "null") }
}

func readRequest(request brokertest.Request) (string, bool) {
	if request.Method == http.MethodPost {
		_, rest, _ := strings.Cut(string(request.Body), `"client_order_id":"`)
		key, _, _ := strings.Cut(rest, `"`)
		return key, true
	}
	target, _ := url.Parse(request.Path)
	return target.Query().Get("client_order_id"), false
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	type want struct {
		evidence     broker.Verdict
		reason       broker.Reason
		code         string
		cost, filled string
	}
	processing := want{evidence: broker.Processing, reason: broker.InProcessing}
	unconfirmed := want{evidence: broker.Uncertain, reason: broker.UnconfirmedResponse}
	rejected := func(code string) want { return want{evidence: broker.Rejected, code: code} }
	bought := func(cost, filled string) want {
		return want{evidence: broker.Accepted, cost: cost, filled: filled}
	}
	cases := []struct {
		status, filled, price string
		want                  want
	}{
		{"filled", "10", "24.5", bought("245", "10")},
		{"filled", "10", "24.123456", bought("241.23456", "10")}, // the purchase rounds
		{"filled", "0", "null", unconfirmed},
		{"filled", "10", "null", unconfirmed},
		{"filled", "11", "24", unconfirmed},
		{"canceled", "0", "null", rejected("canceled")},
		{"canceled", "4", "25", bought("100", "4")},
		{"canceled", "4", "null", unconfirmed},
		{"expired", "0", "null", rejected("expired")},
		{"expired", "0.5", "25", bought("12.5", "0.5")},
		{"rejected", "0", "null", rejected("rejected")},
		{"rejected", "1", "25", bought("25", "1")},
		{"new", "0", "null", processing},
		{"accepted", "0", "null", processing},
		{"pending_new", "0", "null", processing},
		{"accepted_for_bidding", "0", "null", processing},
		{"partially_filled", "4", "25", processing},
		{"done_for_day", "4", "25", processing},
		{"calculated", "10", "25", processing},
		{"stopped", "0", "null", processing},
		{"suspended", "0", "null", processing},
		{"held", "0", "null", processing},
		{"pending_cancel", "4", "25", processing},
		{"pending_replace", "0", "null", processing},
		{"replaced", "0", "null", unconfirmed},
		{"FILLED", "10", "25", unconfirmed},
		{"", "10", "25", unconfirmed},
	}
	for _, c := range cases {
		t.Run(c.status+" "+c.filled+" "+c.price, func(t *testing.T) {
			t.Parallel()
			server := brokertest.NewServer(t)
			client := newClient(t, config(server.URL(), 10*time.Second))
			server.Standing(brokertest.Answer(200, said(key, shares(), c.status, c.filled, c.price)))
			answers := map[string]broker.Answer{
				"place": client.Place(t.Context(), broker.Request{Key: key, Body: []byte("{}")}), "lookup": client.Lookup(t.Context(), broker.Query{Key: key}),
			}
			for call, answer := range answers {
				got := want{answer.Verdict, answer.Reason, answer.Code, "", ""}
				if answer.Cost.Valid {
					got.cost = answer.Cost.Decimal.String()
				}
				if answer.FilledQuantity.Valid {
					got.filled = answer.FilledQuantity.Decimal.String()
				}
				if got != c.want {
					t.Errorf("%s: got %+v, want %+v", call, got, c.want)
				}
			}
		})
	}
}

func TestOrderBodiesThatProveNothing(t *testing.T) {
	t.Parallel()
	good := said(key, shares(), "filled", "10", "25")
	cases := map[string]struct {
		body string
		want broker.Reason
	}{
		"OtherKey":     {strings.Replace(good, key+`","created`, `other","created`, 1), broker.Mismatch},
		"Sold":         {strings.Replace(good, `"side":"buy"`, `"side":"sell"`, 1), broker.Mismatch},
		"NoID":         {strings.Replace(good, `"id"`, `"ID"`, 1), broker.UnreadableResponse},
		"NoStatus":     {strings.Replace(good, `"status"`, `"state"`, 1), broker.UnreadableResponse},
		"NumberKey":    {strings.Replace(good, `"client_order_id":"`+key+`"`, `"client_order_id":1`, 1), broker.UnreadableResponse},
		"Negative":     {strings.Replace(good, `"filled_qty":"10"`, `"filled_qty":"-10"`, 1), broker.UnreadableResponse},
		"NumberSymbol": {strings.Replace(good, `"symbol":"AAPL"`, `"symbol":1`, 1), broker.UnreadableResponse},
		"Explosive":    {strings.Replace(good, `"filled_avg_price":"25"`, `"filled_avg_price":1e999999`, 1), broker.UnreadableResponse},
		"NoFilled":     {strings.Replace(good, `"filled_qty"`, `"x"`, 1), broker.UnconfirmedResponse},
		"CanceledMute": {strings.Replace(said(key, shares(), "canceled", "0", "null"), `"filled_qty"`, `"x"`, 1), broker.UnconfirmedResponse},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := brokertest.NewServer(t)
			server.Standing(brokertest.Answer(200, c.body))
			answer := newClient(t, config(server.URL(), 10*time.Second)).Lookup(t.Context(), broker.Query{Key: key})
			if answer.Verdict != broker.Uncertain || answer.Reason != c.want {
				t.Errorf("got %s %s, want uncertain %s", answer.Verdict, answer.Reason, c.want)
			}
		})
	}
}

func TestNotionalOrderIsNoMismatch(t *testing.T) {
	t.Parallel()
	order := broker.Order{Symbol: "AAPL", Currency: "USD", Notional: some("500.75")}
	server := brokertest.NewServer(t)
	client := newClient(t, config(server.URL(), 10*time.Second))
	server.Script(brokertest.Answer(200, said(key, order, "filled", "20.03", "25")))
	// Some answers repeat what was filled as the quantity.
	server.Script(brokertest.Answer(200, strings.Replace(said(key, order, "filled", "20.03", "25"), `"qty":null`, `"qty":"20.03"`, 1)))
	for range 2 {
		answer := client.Lookup(t.Context(), broker.Query{Key: key})
		if answer.Verdict != broker.Accepted || answer.Echo.Contradicts(order) || answer.Cost.Decimal.String() != "500.75" {
			t.Fatalf("got %+v", answer)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	fraction := shares()
	fraction.Quantity = some("0.5")
	cases := []struct {
		name  string
		force alpaca.TimeInForce
		order broker.Order
		want  string
	}{
		{"Whole", "", shares(), `{"symbol":"AAPL","qty":"10","side":"buy","type":"limit","time_in_force":"ioc","limit_price":"25.00","client_order_id":"hf-0198f2c4"}`},
		{"WholeForTheDay", alpaca.Day, shares(), `{"symbol":"AAPL","qty":"10","side":"buy","type":"limit","time_in_force":"day","limit_price":"25.00","client_order_id":"hf-0198f2c4"}`},
		{"Fraction", "", fraction, `{"symbol":"AAPL","qty":"0.5","side":"buy","type":"limit","time_in_force":"day","limit_price":"25.00","client_order_id":"hf-0198f2c4"}`},
		{"Notional", "", broker.Order{Symbol: "BRK.B", Currency: "USD", Notional: some("500.75")}, `{"symbol":"BRK.B","notional":"500.75","side":"buy","type":"market","time_in_force":"day","client_order_id":"hf-0198f2c4"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settings := config("", time.Second)
			settings.TimeInForce = c.force
			body, err := newClient(t, settings).Encode(key, c.order)
			if err != nil || string(body) != c.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, body, c.want)
			}
		})
	}
	euros := shares()
	euros.Currency = "EUR"
	client := newClient(t, config("", time.Second))
	var unsupported *broker.UnsupportedError
	if _, err := client.Encode(key, euros); !errors.As(err, &unsupported) || unsupported.Field != "currency" {
		t.Errorf("an order in euros: %v", err)
	}
	if _, err := client.Encode(strings.Repeat("k", 129), shares()); err == nil {
		t.Error("a key of 129 characters was encoded")
	}
}

func TestWhatIsOnTheWire(t *testing.T) {
	t.Parallel()
	server := brokertest.NewServer(t)
	server.Standing(brokertest.Answer(404, ""))
	client := newClient(t, config(server.URL()+"/v2/", time.Second))
	client.Place(t.Context(), broker.Request{Key: key, Body: []byte("{}")})
	client.Lookup(t.Context(), broker.Query{Key: "a/b&c"})
	requests := server.Await(t, 2)
	if requests[0].Method != http.MethodPost || requests[0].Path != "/v2/orders" {
		t.Errorf("place: %s %s", requests[0].Method, requests[0].Path)
	}
	if requests[1].Method != http.MethodGet || requests[1].Path != "/v2/orders:by_client_order_id?client_order_id=a%2Fb%26c" {
		t.Errorf("lookup: %s %s", requests[1].Method, requests[1].Path)
	}
	for _, request := range requests {
		if request.Header.Get("Apca-Api-Key-Id") != "id" || request.Header.Get("Apca-Api-Secret-Key") != "secret" || request.Header.Get("Authorization") != "" {
			t.Errorf("%s header: %v", request.Method, request.Header)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act                    brokertest.Act
		evidence               broker.Verdict
		code                   string
		duplicate, credentials bool
	}{
		"BuyingPower":    {brokertest.Answer(403, `{"code":40310000,"message":"insufficient buying power"}`), broker.Rejected, "40310000", false, false},
		"Unauthorized":   {brokertest.Answer(401, `{"message":"unauthorized."}`), broker.Rejected, "", false, true},
		"Invalid":        {brokertest.Answer(422, `{"code":40010001,"message":"qty or notional is required"}`), broker.Rejected, "40010001", false, false},
		"OldWords":       {brokertest.Answer(422, `{"code":40010001,"message":"Client Order ID must be unique"}`), broker.Uncertain, "40010001", true, false},
		"AlreadyExists":  {brokertest.Answer(400, `{"message":"client_order_id already exists"}`), broker.Uncertain, "", true, false},
		"DuplicateStall": {brokertest.StallBody(422, `{"code":40010001,"message":"client_order_id must be unique"`), broker.Uncertain, "40010001", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := brokertest.NewServer(t)
			server.Script(c.act)
			answer := newClient(t, config(server.URL(), 500*time.Millisecond)).Place(t.Context(), broker.Request{Key: key, Body: []byte("{}")})
			if answer.Verdict != c.evidence || answer.Code != c.code || answer.Duplicate != c.duplicate || answer.CredentialsRefused != c.credentials {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	const tolerance = 30 * time.Second // the epoch is in whole seconds, and machines pause
	for name, c := range map[string]struct {
		status  int
		headers []string
		reset   time.Duration // from now; none where zero
		want    time.Duration
	}{
		"Refused":       {429, nil, 4 * time.Minute, 4 * time.Minute},
		"UsedUp":        {404, []string{"X-Ratelimit-Remaining: 0"}, 4 * time.Minute, 4 * time.Minute},
		"SomeLeft":      {404, []string{"X-Ratelimit-Remaining: 7"}, 4 * time.Minute, 0},
		"Past":          {429, nil, -time.Hour, 0},
		"Absurd":        {429, nil, 1000 * time.Hour, 5 * time.Minute},
		"Unreadable":    {429, []string{"X-Ratelimit-Reset: soon"}, 0, 0},
		"RetryAfterToo": {429, []string{"Retry-After: 600"}, time.Minute, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := c.headers
			if c.reset != 0 {
				headers = append(headers, fmt.Sprintf("X-Ratelimit-Reset: %d", time.Now().Add(c.reset).Unix()))
			}
			server := brokertest.NewServer(t)
			server.Script(brokertest.Answer(c.status, "", headers...))
			answer := newClient(t, config(server.URL(), 10*time.Second)).Lookup(t.Context(), broker.Query{Key: key})
			if got := answer.RetryAfter; got > c.want || got < c.want-tolerance {
				t.Errorf("retry after %s, want %s", got, c.want)
			}
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	ioc := newClient(t, config("", time.Second)).Capabilities()
	if !ioc.Idempotent || ioc.ProcessingInterval != 5*time.Second || ioc.Name != "alpaca" {
		t.Errorf("capabilities %+v", ioc)
	}
	for name, change := range map[string]func(*alpaca.Config){
		"NoKey":       func(c *alpaca.Config) { c.KeyID = "" },
		"NoSecret":    func(c *alpaca.Config) { c.Secret = "" },
		"GoodTill":    func(c *alpaca.Config) { c.TimeInForce = "gtc" },
		"NoTimeout":   func(c *alpaca.Config) { c.Timeout = 0 },
		"OtherScheme": func(c *alpaca.Config) { c.BaseURL = "ftp://x" },
		"BelowZero":   func(c *alpaca.Config) { c.Settle = -1 },
	} {
		settings := config("", time.Second)
		change(&settings)
		if _, err := alpaca.New(settings); err == nil || strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}
