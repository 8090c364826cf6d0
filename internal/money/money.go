// Package money reads and writes decimal amounts without losing a digit: numeric in
// Postgres, decimal.Decimal in Go, strings in JSON. It knows the number of decimals
// of each ISO 4217 currency. Any room may import it; it imports none.
package money

import (
	"errors"
	"strings"

	"github.com/bojanz/currency"
	"github.com/shopspring/decimal"
)

// The reasons why Parse refuses a string.
var (
	ErrForm     = errors.New("must be a plain decimal such as 10 or 10.25: digits, then optionally a point and digits")
	ErrDigits   = errors.New("has too many digits before the point")
	ErrDecimals = errors.New("has too many decimals")
)

// Parse reads digits, optionally followed by a point and digits; no sign, exponent
// or space. It refuses more than maxDigits before the point or maxDecimals behind
// it, counted as written. The scale as written is kept: "10.0" stays "10.0".
func Parse(s string, maxDigits, maxDecimals int) (decimal.Decimal, error) {
	whole, fraction, point := strings.Cut(s, ".")
	if !digitsOnly(whole) || (point && !digitsOnly(fraction)) {
		return decimal.Decimal{}, ErrForm
	}
	if len(whole) > maxDigits {
		return decimal.Decimal{}, ErrDigits
	}
	if len(fraction) > maxDecimals {
		return decimal.Decimal{}, ErrDecimals
	}
	return decimal.NewFromString(s)
}

func digitsOnly(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Format writes d in plain form with the scale it carries.
func Format(d decimal.Decimal) string {
	return d.StringFixed(max(0, -d.Exponent()))
}

// FormatCurrency writes an amount with the currency's own number of decimals, or
// more where the amount has more: no digit is dropped.
func FormatCurrency(d decimal.Decimal, code string) string {
	decimals, _ := CurrencyDecimals(code)
	if rounded := d.Round(decimals); rounded.Equal(d) {
		return d.StringFixed(decimals)
	}
	return d.String()
}

// CurrencyDecimals returns the number of decimals ISO 4217 gives a currency; false
// where there is no such currency.
func CurrencyDecimals(code string) (int32, bool) {
	digits, ok := currency.GetDigits(code)
	return int32(digits), ok
}
