package api

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/internal/money"
)

const (
	maxMetadata = 4 << 10
	maxDigits   = 12
	// maxCurrencyDecimals is more than any currency has; the account's own number is
	// checked once the account is known.
	maxCurrencyDecimals = 4
)

const (
	messageAccountID = "must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"
	messageRequired  = "is required"
	messageString    = "must be a string"
)

var (
	symbolForm   = regexp.MustCompile(`^[A-Z0-9][A-Z0-9.-]{0,19}$`)
	currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)
)

// text takes a string of up to most characters. An absent one is empty; required makes
// that a fault, and one of blanks too.
func (b *body) text(field string, required bool, most int) string {
	value, ok := b.take(field)
	if !ok {
		if required {
			b.fault(field, messageRequired)
		}
		return ""
	}
	s, ok := b.stringOf(field, value)
	switch {
	case !ok:
	case required && strings.TrimSpace(s) == "":
		b.fault(field, "must not be empty")
	case utf8.RuneCountInString(s) > most:
		b.fault(field, fmt.Sprintf("must have at most %d characters", most))
	case strings.ContainsRune(s, 0):
		b.fault(field, "must not contain the character U+0000")
	default:
		return s
	}
	return ""
}

// optional takes a string of up to most characters that may be empty; nil if it is absent.
func (b *body) optional(field string, most int) *string {
	if !b.has(field) {
		b.taken[field] = true
		return nil
	}
	s := b.text(field, false, most)
	return &s
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (b *body) stringOf(field string, value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		b.fault(field, messageString)
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		b.fault(field, "must be valid Unicode")
		return "", false
	}
	return string(s), true
}

// formed takes a string of a form.
func (b *body) formed(field string, required bool, form func(string) bool, message string) string {
	value, ok := b.take(field)
	if !ok {
		if required {
			b.fault(field, messageRequired)
		}
		return ""
	}
	s, ok := b.stringOf(field, value)
	if ok && !form(s) {
		b.fault(field, message)
	}
	return s
}

func (b *body) accountID(field string, required bool) string {
	return b.formed(field, required, account.ValidID, messageAccountID)
}

func (b *body) symbol(field string) string {
	return b.formed(field, true, symbolForm.MatchString,
		"must be 1 to 20 of A-Z 0-9 . - and begin with a letter or digit")
}

func (b *body) currency(field string, required bool) string {
	return b.formed(field, required, knownCurrency, "must be an ISO 4217 code such as USD")
}

func knownCurrency(code string) bool {
	if !currencyForm.MatchString(code) {
		return false
	}
	_, known := money.CurrencyDecimals(code)
	return known
}

// amount takes a decimal above zero; orZero allows zero too. It is absent where the
// field is, and invalid where the field is at fault.
func (b *body) amount(field string, maxDecimals int, orZero bool) decimal.NullDecimal {
	value, ok := b.take(field)
	if !ok {
		return decimal.NullDecimal{}
	}
	s, ok := b.decimalText(field, value)
	if !ok {
		return decimal.NullDecimal{}
	}
	d, err := money.Parse(s, maxDigits, maxDecimals)
	if err != nil {
		b.fault(field, decimalMessage(err, maxDecimals))
		return decimal.NullDecimal{}
	}
	if d.IsZero() && !orZero {
		b.fault(field, "must be above zero")
		return decimal.NullDecimal{}
	}
	return decimal.NewNullDecimal(d)
}

func (b *body) decimalText(field string, value jsontext.Value) (string, bool) {
	if value.Kind() != '"' {
		b.fault(field, `must be a string such as "10.25", never a JSON number`)
		return "", false
	}
	return b.stringOf(field, value)
}

func decimalMessage(err error, maxDecimals int) string {
	switch {
	case errors.Is(err, money.ErrDigits):
		return fmt.Sprintf("must have at most %d digits before the point", maxDigits)
	case errors.Is(err, money.ErrDecimals):
		return fmt.Sprintf("must have at most %d decimals", maxDecimals)
	}
	return err.Error()
}

// object takes a JSON object and returns it compact and otherwise as it was sent; an
// absent one is {}.
func (b *body) object(field string, most int) string {
	value, ok := b.take(field)
	if !ok {
		return "{}"
	}
	if value.Kind() != '{' {
		b.fault(field, "must be an object")
		return ""
	}
	if !value.IsValid() {
		b.fault(field, "must not have the same name twice in one object, and only valid Unicode")
		return ""
	}
	if err := value.Compact(); err != nil {
		b.fault(field, "must be valid JSON")
		return ""
	}
	if len(value) > most {
		b.fault(field, fmt.Sprintf("must have at most %d bytes", most))
	}
	return string(value)
}

// truth takes true or false.
func (b *body) truth(field string, required bool) bool {
	value, ok := b.take(field)
	if !ok {
		if required {
			b.fault(field, messageRequired)
		}
		return false
	}
	if value.Kind() != 't' && value.Kind() != 'f' {
		b.fault(field, "must be true or false")
	}
	return value.Kind() == 't'
}

// duration takes a Go duration such as "90s" that is not negative.
func (b *body) duration(field string) time.Duration {
	value, ok := b.take(field)
	if !ok {
		return 0
	}
	s, ok := b.stringOf(field, value)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		b.fault(field, `must be a duration such as "90s" or "2h"`)
		return 0
	}
	return d
}

// instant takes an RFC 3339 time. Whether it is in the future is for the database's clock
// to say; one that no clock can take for the future is invalid here.
func (b *body) instant(field string) *time.Time {
	value, ok := b.take(field)
	if !ok {
		return nil
	}
	s, ok := b.stringOf(field, value)
	if !ok {
		return nil
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(s)); err != nil || t.UTC().Year() > maxYear {
		b.fault(field, "must be an RFC 3339 time such as 2030-01-31T15:30:00Z")
		return nil
	}
	if t.UTC().Year() < minYear {
		b.fault(field, "must be in the future")
	}
	return &t
}

// The years that a time may be in: what can still be written as RFC 3339, and what a
// clock can show.
const (
	minYear = 2000
	maxYear = 9999
)

// oneOf takes one word of several.
func (b *body) oneOf(field string, words ...string) string {
	valid := func(s string) bool {
		for _, word := range words {
			if s == word {
				return true
			}
		}
		return false
	}
	return b.formed(field, true, valid, "must be "+strings.Join(words, " or "))
}

// required takes a decimal above zero that must be there.
func (b *body) required(field string, maxDecimals int) decimal.Decimal {
	if !b.has(field) {
		b.take(field)
		b.fault(field, messageRequired)
		return decimal.Decimal{}
	}
	return b.amount(field, maxDecimals, false).Decimal
}

// orderID takes a broker's order id: visible characters, whatever the broker makes them.
func (b *body) orderID(field string) string {
	return b.formed(field, false, func(s string) bool { return visible(s) && len(s) <= maxOrderID },
		"must be 1 to 128 visible ASCII characters")
}
