package purchase

import (
	"testing"

	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/internal/money"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, a, b string
		equal      bool
	}{
		{"FieldOrder", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"Spaces", `{"a":[1,2]}`, `{ "a" : [ 1 , 2 ] }`, true},
		{"NumbersByValue", `{"a":100}`, `{"a":1.00e2}`, true},
		{"Escapes", `{"a":"é"}`, `{"a":"\u00e9"}`, true},
		{"BigIntegersDiffer", `{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{"HugeExponents", `{"a":1e999999999}`, `{"a":1e999999998}`, false},
		{"NegativeZero", `{"a":-0}`, `{"a":0.0}`, true},
		{"StringIsNoNumber", `{"a":"1"}`, `{"a":1}`, false},
		{"NullIsNotAbsent", `{"a":null}`, `{}`, false},
		{"ArrayOrder", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"NestingDiffers", `{"a":[[1],2]}`, `{"a":[[1,2]]}`, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, errA := canonicalJSON(c.a)
			b, errB := canonicalJSON(c.b)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if (a == b) != c.equal {
				t.Errorf("%s and %s: equal is %t", a, b, a == b)
			}
		})
	}
}

func amount(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func TestHold(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, quantity, price, notional, currency, want string
	}{
		{"Exact", "10", "25.00", "", "USD", "250.00"},
		{"RoundsUp", "0.001", "0.01", "", "USD", "0.01"},
		{"RoundsUpToYen", "3", "33.1", "", "JPY", "100"},
		{"ThreeDecimals", "1", "0.0001", "", "KWD", "0.001"},
		{"Largest", "999999999999.999999999", "999999999999.999999", "", "USD", "999999999999999998999000.01"},
		{"Notional", "", "", "100.5", "USD", "100.5"},
		{"NotionalTooFine", "", "", "100.001", "USD", ""},
		{"NotionalYen", "", "", "100.0", "JPY", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			order := broker.Order{Currency: c.currency}
			if c.notional != "" {
				order.Notional = amount(c.notional)
			} else {
				order.Quantity, order.LimitPrice = amount(c.quantity), amount(c.price)
			}
			got, err := holdOf(order)
			if (err != nil) != (c.want == "") || (err == nil && money.Format(got) != c.want) {
				t.Errorf("hold is %s (%v), want %q", got, err, c.want)
			}
		})
	}
}
