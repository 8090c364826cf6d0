package money_test

import (
	"errors"
	"testing"

	"github.com/shopspring/decimal"

	"holdfast/internal/money"
)

func TestParse(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, in, want string
		err            error
	}{
		{"Whole", "10", "10", nil},
		{"KeepsZeros", "10.00", "10.00", nil},
		{"DropsLeadingZeros", "007", "7", nil},
		{"MostDigits", "123456789012.123456789", "123456789012.123456789", nil},
		{"TooManyDigits", "1234567890123", "", money.ErrDigits},
		{"LeadingZerosCount", "0000000000001", "", money.ErrDigits},
		{"TooManyDecimals", "1.1234567890", "", money.ErrDecimals},
		{"TrailingZerosCount", "1.0000000000", "", money.ErrDecimals},
		{"Empty", "", "", money.ErrForm},
		{"Negative", "-1", "", money.ErrForm},
		{"Plus", "+1", "", money.ErrForm},
		{"Exponent", "1e3", "", money.ErrForm},
		{"NaN", "NaN", "", money.ErrForm},
		{"Infinity", "Infinity", "", money.ErrForm},
		{"NoWhole", ".5", "", money.ErrForm},
		{"NoFraction", "5.", "", money.ErrForm},
		{"TwoPoints", "1.2.3", "", money.ErrForm},
		{"Space", " 1", "", money.ErrForm},
		{"Comma", "1,000", "", money.ErrForm},
		{"Underscore", "1_000", "", money.ErrForm},
		{"ArabicDigits", "١٢", "", money.ErrForm},
		{"Hex", "0x10", "", money.ErrForm},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := money.Parse(c.in, 12, 9)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error is %v, want %v", err, c.err)
			}
			if err == nil && money.Format(got) != c.want {
				t.Errorf("got %s, want %s", money.Format(got), c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1", "0.1", "1e9", "-1", "999999999999.999999999", "..", "٣"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := money.Parse(in, 12, 9)
		if err != nil {
			return
		}
		again, err := money.Parse(money.Format(d), 12, 9)
		if err != nil || !again.Equal(d) || again.Exponent() != d.Exponent() {
			t.Errorf("%q reads as %s, which does not read back (%v)", in, money.Format(d), err)
		}
	})
}

func TestFormatCurrency(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, amount, currency, want string }{
		{"Pads", "5", "USD", "5.00"},
		{"Yen", "5.0", "JPY", "5"},
		{"Dinar", "5", "KWD", "5.000"},
		{"NoDigitIsDropped", "5.0001", "USD", "5.0001"},
		{"BelowZero", "-3.5", "USD", "-3.50"},
		{"Zero", "0", "USD", "0.00"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := money.FormatCurrency(decimal.RequireFromString(c.amount), c.currency); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
