package exact_test

import (
	"errors"
	"testing"

	"github.com/shopspring/decimal"

	"holdfast/internal/exact"
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
		{"TooManyDigits", "1234567890123", "", exact.ErrDigits},
		{"LeadingZerosCount", "0000000000001", "", exact.ErrDigits},
		{"TooManyDecimals", "1.1234567890", "", exact.ErrDecimals},
		{"TrailingZerosCount", "1.0000000000", "", exact.ErrDecimals},
		{"Empty", "", "", exact.ErrForm},
		{"Negative", "-1", "", exact.ErrForm},
		{"Plus", "+1", "", exact.ErrForm},
		{"Exponent", "1e3", "", exact.ErrForm},
		{"NaN", "NaN", "", exact.ErrForm},
		{"Infinity", "Infinity", "", exact.ErrForm},
		{"NoWhole", ".5", "", exact.ErrForm},
		{"NoFraction", "5.", "", exact.ErrForm},
		{"TwoPoints", "1.2.3", "", exact.ErrForm},
		{"Space", " 1", "", exact.ErrForm},
		{"Comma", "1,000", "", exact.ErrForm},
		{"Underscore", "1_000", "", exact.ErrForm},
		{"ArabicDigits", "١٢", "", exact.ErrForm},
		{"Hex", "0x10", "", exact.ErrForm},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := exact.Parse(c.in, 12, 9)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("error is %v, want %v", err, c.err)
			}
			if err == nil && exact.Format(got) != c.want {
				t.Errorf("got %s, want %s", exact.Format(got), c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1", "0.1", "1e9", "-1", "999999999999.999999999", "..", "٣"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		d, err := exact.Parse(in, 12, 9)
		if err != nil {
			return
		}
		again, err := exact.Parse(exact.Format(d), 12, 9)
		if err != nil || !again.Equal(d) || again.Exponent() != d.Exponent() {
			t.Errorf("%q reads as %s, which does not read back (%v)", in, exact.Format(d), err)
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
			if got := exact.FormatCurrency(decimal.RequireFromString(c.amount), c.currency); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
