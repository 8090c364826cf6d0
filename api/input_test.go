package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestWrongInput goes through the bad forms, field by field. None of them leaves a row
// or reaches the broker.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	refused := func(t *testing.T, body any, names ...string) {
		t.Helper()
		a := w.buy(body).wantProblem(400, "invalid-request")
		if got := a.locations(); !slices.Equal(got, names) {
			t.Errorf("names %v, want %v: %s", got, names, a.body)
		}
	}
	badDecimals := []any{
		"0", "0.0", "000", "-1", "+1", "1e3", "1E3", "NaN", "Infinity", "inf", "", " ", " 1", "1 ", "1.", ".5", "1,5", "1_000",
		"0x10", "١", "1.2.3", "1\u0000", "1234567890123", "1.1234567890", 10, 10.5, true, []any{"1"}, fields{"a": 1},
	}
	t.Run("Decimals", func(t *testing.T) {
		for _, field := range []string{"quantity", "limit_price"} {
			for _, bad := range badDecimals {
				body := order(nil)
				body[field] = bad
				refused(t, body, field)
			}
		}
		for _, bad := range badDecimals {
			body := order(fields{"quantity": nil, "limit_price": nil})
			body["notional"] = bad
			refused(t, body, "notional")
		}
		refused(t, order(fields{"limit_price": "1.1234567"}), "limit_price")
		refused(t, order(fields{"quantity": nil, "limit_price": nil, "notional": "1.001"}), "notional")
	})
	t.Run("DigitsAndDecimalsCountAsWritten", func(t *testing.T) {
		refused(t, order(fields{"quantity": "0000000000001"}), "quantity")
		refused(t, order(fields{"quantity": "1.0000000000"}), "quantity")
		refused(t, order(fields{"limit_price": "0000000000001"}), "limit_price")
		refused(t, order(fields{"limit_price": "1.0000000"}), "limit_price")
		for _, bad := range []string{"1.000", "1.0000", "0000000000001.00"} {
			refused(t, order(fields{"quantity": nil, "limit_price": nil, "notional": bad}), "notional")
		}
	})
	t.Run("ValidUntil", func(t *testing.T) {
		for _, bad := range []any{
			"", "tomorrow", "2030-01-31", "2030-01-31T15:30:00", "2030-01-31 15:30:00Z", "2030-02-30T15:30:00Z", 1900000000, true,
			"0000-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "2020-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00",
		} {
			refused(t, order(fields{"valid_until": bad}), "valid_until")
		}
	})
	t.Run("NullInARequiredField", func(t *testing.T) {
		refused(t, `{"account_id":null,"symbol":null,"notional":"1"}`, "account_id", "symbol")
		refused(t, `{"account_id":"acct-1","symbol":"AAPL","quantity":null,"limit_price":null,"notional":null}`, "quantity", "limit_price")
	})
	t.Run("HalfOfASurrogatePair", func(t *testing.T) {
		refused(t, `{"account_id":"acct-1","symbol":"\ud800","notional":"1","\ud800":1}`, "symbol", "\ufffd")
	})
	t.Run("Symbol", func(t *testing.T) {
		for _, bad := range []any{"", "aapl", ".A", "-A", "A B", "A/B", "ÄPL", strings.Repeat("A", 21), 1, true, fields{}, "A\n", "A\x00"} {
			refused(t, order(fields{"symbol": bad}), "symbol")
		}
	})
	t.Run("AccountID", func(t *testing.T) {
		for _, bad := range []any{"", ".a", "a b", "a/b", strings.Repeat("a", 65), 7, "a\x00", "acct-1\n"} {
			refused(t, order(fields{"account_id": bad}), "account_id")
		}
	})
	t.Run("Currency", func(t *testing.T) {
		for _, bad := range []any{"", "usd", "US", "USDX", "XXZ", "$", 840} {
			refused(t, order(fields{"currency": bad}), "currency")
		}
	})
	t.Run("Metadata", func(t *testing.T) {
		for _, bad := range []any{"x", 1, []any{}, true} {
			refused(t, order(fields{"metadata": bad}), "metadata")
		}
		refused(t, raw(`"metadata":{"a":1,"a":2}`), "metadata")
		refused(t, raw(`"metadata":{"a":{"b":1,"b":1}}`), "metadata")
		refused(t, raw(`"metadata":{"a":"\ud800"}`), "metadata")
		refused(t, order(fields{"metadata": fields{"a": strings.Repeat("x", 4096)}}), "metadata")
	})
	t.Run("MetadataOf4kBWithoutItsSpaces", func(t *testing.T) {
		w.buy(raw(`"metadata":{ "a" : "` + strings.Repeat("x", 4096-8) + `" }`)).wantStatus(201)
	})
	t.Run("Missing", func(t *testing.T) {
		refused(t, `{}`, "account_id", "symbol", "quantity", "limit_price")
		refused(t, order(fields{"quantity": nil}), "quantity")
		refused(t, order(fields{"limit_price": nil}), "limit_price")
	})
	t.Run("NotionalBesideQuantity", func(t *testing.T) {
		refused(t, order(fields{"notional": "1"}), "quantity", "limit_price")
		refused(t, order(fields{"notional": "1", "limit_price": nil}), "quantity")
	})
	t.Run("Unknown", func(t *testing.T) {
		refused(t, order(fields{"side": "buy"}), "side")
		refused(t, order(fields{"Symbol": "AAPL"}), "Symbol")
		refused(t, raw(`"`+strings.Repeat("n", 100)+`":1`), strings.Repeat("n", 64)+"…")
	})
	t.Run("Twice", func(t *testing.T) {
		refused(t, raw(`"symbol":"AAPL"`), "symbol")
		refused(t, raw(`"quantity":"10","quantity":"10"`), "quantity", "quantity")
	})
	t.Run("SeveralAtOnce", func(t *testing.T) {
		refused(t, `{"symbol":"a","quantity":-1,"limit_price":"1e3","currency":1,"metadata":[],"side":"buy","account_id":"acct-1","account_id":"acct-1"}`,
			"account_id", "symbol", "quantity", "limit_price", "currency", "metadata", "side")
	})
	t.Run("NoObject", func(t *testing.T) {
		for _, bad := range []string{
			"", " ", "null", "[]", `"x"`, "1", "{", `{"symbol"`, `{"symbol":}`, `{"symbol":"A",}`, `{'symbol':"A"}`, "{}{}", "{} x", "{}]",
			"\ufeff{}", "{\"symbol\":\"\xff\"}", "{\"\xff\":1}", `{"symbol":"a` + "\n" + `"}`, `{"a":01}`, `{"a":NaN}`,
			strings.Repeat(`{"a":`, 11000),
		} {
			refused(t, bad+"", "body")
		}
	})
	t.Run("SaysWhereTheTextBreaks", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"symbol":"A`: "body ends before its JSON object does", `{"symbol":"A",`: "body ends before its JSON object does",
			`{`: "body ends before its JSON object does", `{"symbol":nil}`: "body is not valid JSON at byte 11",
		} {
			w.buy(body).wantProblem(400, "invalid-request").wantText("detail", want)
		}
	})
	t.Run("TheWidestOfEach", func(t *testing.T) {
		w.buy(order(fields{"quantity": "000000000001.000000000", "limit_price": "000000000001.000000"})).wantStatus(201).
			wantText("quantity", "1.000000000").wantText("limit_price", "1.000000").wantText("cost", "1.00")
		w.buy(order(fields{"quantity": nil, "limit_price": nil, "notional": "000000000001.00"})).wantStatus(201)
		w.buy(order(fields{"quantity": "999999999999.999999999", "limit_price": "999999999999.999999"})).wantProblem(400, "insufficient-funds")
	})
	if n := w.count("SELECT count(*) FROM transaction_history"); n != 3 {
		t.Errorf("%d rows, want the three good purchases", n)
	}
}

// raw is an order with something more in its text.
func raw(more string) string {
	return fmt.Sprintf(`{"account_id":"acct-1","symbol":"AAPL","quantity":"10","limit_price":"25.00",%s}`, more)
}

func TestAccountsWithOtherCurrencies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, c := range []struct{ currency, price, notional, reserved string }{
		{"JPY", "10.1", "101", "101"}, {"BHD", "0.0001", "0.001", "0.001"},
	} {
		id := strings.ToLower(c.currency)
		w.fund(id, c.currency)
		key := w.key("client", id)
		buy := func(body fields) *answer {
			return w.do(request{method: "POST", path: "/v1/purchases", key: key, body: body, header: withKey(uuid.NewString())})
		}
		buy(fields{"account_id": id, "symbol": "ERR500", "quantity": "10", "limit_price": c.price, "currency": c.currency}).
			wantStatus(202).wantText("reserved", c.reserved)
		buy(fields{"account_id": id, "symbol": "AAPL", "notional": c.notional}).wantStatus(201).wantText("cost", c.reserved)
		buy(fields{"account_id": id, "symbol": "AAPL", "notional": c.notional + "1", "currency": "USD"}).wantProblem(400, "invalid-request")
	}
}
