package broker_test

import (
	"testing"

	"github.com/shopspring/decimal"

	"holdfast/broker"
)

func amount(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func TestEchoContradictsByValue(t *testing.T) {
	t.Parallel()
	apple, other := "AAPL", "MSFT"
	shares := broker.Order{Symbol: "AAPL", Quantity: amount("10"), LimitPrice: amount("25.00")}
	notional := broker.Order{Symbol: "AAPL", Notional: amount("500")}
	cases := []struct {
		name  string
		order broker.Order
		echo  broker.Echo
		want  bool
	}{
		{"Nothing", shares, broker.Echo{}, false},
		{"SameByValue", shares, broker.Echo{Symbol: &apple, Quantity: amount("10.000"), LimitPrice: amount("25")}, false},
		{"OtherSymbol", shares, broker.Echo{Symbol: &other}, true},
		{"OtherQuantity", shares, broker.Echo{Quantity: amount("10.0001")}, true},
		{"OtherPrice", shares, broker.Echo{LimitPrice: amount("24.99")}, true},
		{"NotionalOfShares", shares, broker.Echo{Notional: amount("250")}, true},
		{"SameNotional", notional, broker.Echo{Notional: amount("500.00")}, false},
		{"OtherNotional", notional, broker.Echo{Notional: amount("501")}, true},
		{"SharesOfNotional", notional, broker.Echo{Quantity: amount("10"), Notional: amount("500")}, false},
		{"WorthOfShares", shares, broker.Echo{Quantity: amount("10"), Notional: amount("250")}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.echo.Contradiction(c.order); (got != "") != c.want {
				t.Fatalf("got %q, want one: %v", got, c.want)
			}
		})
	}
}
