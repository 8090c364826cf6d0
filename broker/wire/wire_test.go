package wire_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"holdfast/broker/wire"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	cases := []struct {
		name   string
		values []string
		want   time.Duration
	}{
		{"None", nil, 0},
		{"Seconds", []string{"120"}, 2 * time.Minute},
		{"Zero", []string{"0"}, 0},
		{"Spaces", []string{" 5 "}, 5 * time.Second},
		{"Huge", []string{strings.Repeat("9", 5000)}, year},
		{"Negative", []string{"-5"}, 0},
		{"Fraction", []string{"1.5"}, 0},
		{"Garbage", []string{"soon"}, 0},
		{"Date", []string{"Sun, 01 Mar 2026 12:00:30 GMT"}, 30 * time.Second},
		{"PastDate", []string{"Sun, 01 Mar 2026 11:00:00 GMT"}, 0},
		{"FarDate", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, year},
		{"OldDateForm", []string{"Sunday, 01-Mar-26 12:01:00 GMT"}, time.Minute},
		{"LongestOfSeveral", []string{"3", "9", "x"}, 9 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := wire.RetryAfter(http.Header{"Retry-After": c.values}, now); got != c.want {
				t.Fatalf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		`"10.0"`: "10", `10.50`: "10.5", `0`: "0", `1e3`: "1000", `"1E3"`: "1000", `25e-2`: "0.25", `"1e+2"`: "100",
		`0.000000000000000000000000000001`: "0.000000000000000000000000000001",
		`123456789012345678901234567890`:   "123456789012345678901234567890",
	}
	for in, want := range good {
		got, err := wire.Amount(jsontext.Value(in))
		if err != nil || !got.Valid || !got.Decimal.Equal(decimal.RequireFromString(want)) || got.Decimal.Exponent() > 0 {
			t.Errorf("%s: %v %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{``, `null`, `""`} {
		if got, err := wire.Amount(jsontext.Value(in)); got.Valid || err != nil {
			t.Errorf("%q: %v %v, want absent", in, got, err)
		}
	}
	for _, in := range []string{
		`-1`, `"-0"`, `" "`, `" 1"`, `"+1"`, `".5"`, `"5."`, `"NaN"`, `"Infinity"`, `"1_000"`, `"1,5"`, `"٣"`, `"0x1"`, `1e31`, `1e999999999`,
		`1e-999999999`, `"1e"`, `"1e+-2"`, `"e1"`, `true`, `[]`, `{}`, `1234567890123456789012345678901`, `0.` + strings.Repeat("0", 31),
	} {
		if got, err := wire.Amount(jsontext.Value(in)); err == nil {
			t.Errorf("%s: read as %s", in, got.Decimal)
		}
	}
}

func TestAmountKeepsAnyDecimal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(0|[1-9][0-9]{0,29})(\.[0-9]{1,30})?`).Draw(t, "amount")
		for _, form := range []string{text, `"` + text + `"`} {
			got, err := wire.Amount(jsontext.Value(form))
			if err != nil || got.Decimal.StringFixed(-got.Decimal.Exponent()) != text {
				t.Fatalf("%s: %s %v", form, got.Decimal, err)
			}
		}
	})
}

func FuzzAmount(f *testing.F) {
	for _, seed := range []string{`1`, `"1.5"`, `1e30`, `1e999999999`, `null`, `-0`, `"NaN"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := wire.Amount(in)
		if err != nil {
			return
		}
		if got.Valid && (got.Decimal.IsNegative() || got.Decimal.NumDigits() > 60 || got.Decimal.Exponent() > 0 || got.Decimal.Exponent() < -30) {
			t.Fatalf("%q read as %s", in, got.Decimal)
		}
	})
}

func FuzzID(f *testing.F) {
	for _, seed := range []string{`"a"`, `8389765929445198309`, `1.5`, `""`, `"\u0000"`, `"\ud800"`, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		id, err := wire.ID(in)
		if err == nil && (id == "" || len(id) > 64<<10 || strings.ContainsRune(id, 0) || !utf8.ValidString(id)) {
			t.Fatalf("%q read as %q", in, id)
		}
	})
}

func FuzzReadCodes(f *testing.F) {
	for _, seed := range []string{`{"code":"x"}`, `{"code":1,"code":"duplicate"}`, `[{"CODE":"a"}`, "{\"code\":\"\xff\\u0000\"}", `{"code":{"code":"x"}}`, `{"a":"code","b":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		codes := wire.ReadCodes(in)
		for _, code := range append(codes.All, codes.Top) {
			if !utf8.ValidString(code) || strings.ContainsRune(code, 0) {
				t.Fatalf("%q gave the code %q", in, code)
			}
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "Sun, 01 Mar 2026 12:00:30 GMT", "99999999999999999999", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if got := wire.RetryAfter(http.Header{"Retry-After": {in}}, now); got < 0 || got > 365*24*time.Hour {
			t.Fatalf("%q: %s", in, got)
		}
	})
}

func TestReadCodes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"code":"a"}`:                        "a",
		`{"message":"code","x":{"code":"b"}}`: "",
		`{"Code":"a","code":"b"}`:             "a",
		`{"x":["code","c"],"code":7}`:         "7",
		`{"code":null}`:                       "",
		`"code"`:                              "",
		`{"code":"a"`:                         "a",
		``:                                    "",
	} {
		if got := wire.ReadCodes([]byte(in)).Top; got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
