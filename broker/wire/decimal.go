package wire

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

// maxDigits bounds an amount on either side of its point. No price has as many, and a
// number such as 1e999999999 would otherwise fill the memory.
const maxDigits = 30

// errAmount is returned for every malformed amount.
var errAmount = errors.New("amount is not a plain, bounded decimal of zero or more")

// Amount reads an amount, a JSON string or number, exactly: never through a float.
// Absent, null or "" is not valid; negative, or anything but a decimal, is an error.
func Amount(value jsontext.Value) (decimal.NullDecimal, error) {
	if len(value) == 0 || value.Kind() == 'n' || string(value) == `""` {
		return decimal.NullDecimal{}, nil
	}
	text, err := scalar(value)
	if err != nil {
		return decimal.NullDecimal{}, err
	}
	amount, err := parseAmount(text)
	return decimal.NullDecimal{Decimal: amount, Valid: err == nil}, err
}

// Size reads the size or price of an order as the broker repeats it. Zero counts as absent:
// no order has it.
func Size(value jsontext.Value) (decimal.NullDecimal, error) {
	size, err := Amount(value)
	if err != nil || size.Decimal.IsZero() {
		return decimal.NullDecimal{}, err
	}
	return size, nil
}

// parseAmount reads JSON's number grammar without the sign, bounded.
func parseAmount(text string) (decimal.Decimal, error) {
	mantissa, exponent, err := splitExponent(text)
	if err != nil {
		return decimal.Decimal{}, err
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !digits(whole) || (point && !digits(fraction)) {
		return decimal.Decimal{}, errAmount
	}
	if len(whole)+max(exponent, 0) > maxDigits || len(fraction)+max(-exponent, 0) > maxDigits {
		return decimal.Decimal{}, errAmount
	}
	amount, err := decimal.NewFromString(mantissa)
	if err != nil {
		return decimal.Decimal{}, errAmount
	}
	return plain(amount.Shift(int32(exponent))), nil
}

func splitExponent(text string) (mantissa string, exponent int, err error) {
	at := strings.IndexAny(text, "eE")
	if at < 0 {
		return text, 0, nil
	}
	unsigned := strings.TrimPrefix(strings.TrimPrefix(text[at+1:], "-"), "+")
	if !digits(unsigned) || len(unsigned) > 3 || len(text)-at-1-len(unsigned) > 1 {
		return "", 0, errAmount
	}
	exponent, err = strconv.Atoi(text[at+1:])
	return text[:at], exponent, err
}

// plain writes 1e3 as 1000: a decimal with a positive exponent surprises its readers.
func plain(d decimal.Decimal) decimal.Decimal {
	if d.Exponent() <= 0 {
		return d
	}
	return decimal.NewFromBigInt(d.BigInt(), 0)
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
