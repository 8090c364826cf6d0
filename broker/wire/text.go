package wire

import (
	"errors"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// maxID bounds an order id by what is kept of an answer. Ids of real brokers have
// some dozens of characters.
const maxID = 64 << 10

var errID = errors.New("id is not a string or whole number of sensible length")

// ID reads an id, a JSON string or a whole number of any digits, exactly as it was written.
func ID(value jsontext.Value) (string, error) {
	id, err := scalar(value)
	if err != nil || id == "" || len(id) > maxID {
		return "", errID
	}
	if value.Kind() == '0' && !digits(id) {
		return "", errID
	}
	if strings.ContainsFunc(id, unicode.IsControl) || strings.TrimSpace(id) == "" {
		return "", errID
	}
	return id, nil
}

// Text reads a JSON string; absent or null is nil.
func Text(value jsontext.Value) (*string, error) {
	if len(value) == 0 || value.Kind() == 'n' {
		return nil, nil
	}
	if value.Kind() != '"' {
		return nil, errors.New("value is not a string")
	}
	text, err := scalar(value)
	return &text, err
}

// scalar is the text of a JSON string, or a number as it is written.
func scalar(value jsontext.Value) (string, error) {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		return string(text), err
	case '0':
		return string(value), nil
	}
	return "", errors.New("value is not a string or number")
}

// Scalar is the text of a string or a number, empty for anything else; it can be stored.
func Scalar(value jsontext.Value) string {
	if len(value) == 0 {
		return ""
	}
	text, err := scalar(value)
	if err != nil {
		return ""
	}
	return Storable(text)
}

// Codes are the codes that an answer's body gives.
type Codes struct {
	// Top is the value of the body's own "code", empty if there is none.
	Top string
	// All are the values of every member named code, in any case, at any depth.
	All []string
}

// maxCodes bounds how many codes of one body are looked at.
const maxCodes = 1000

// ReadCodes collects codes from a body that may be cut anywhere or be no JSON at all:
// a refusal is judged by its status line, and only a code can soften it.
func ReadCodes(body []byte) Codes {
	var codes Codes
	decoder := lenient(body)
	for len(codes.All) < maxCodes {
		token, err := decoder.ReadToken()
		if err != nil {
			return codes
		}
		if !isName(decoder, token) || !strings.EqualFold(token.String(), "code") {
			continue
		}
		depth := decoder.StackDepth()
		code, ok := nextScalar(decoder)
		if !ok {
			continue
		}
		codes.All = append(codes.All, code)
		if depth == 1 && codes.Top == "" {
			codes.Top = code
		}
	}
	return codes
}

func isName(decoder *jsontext.Decoder, token jsontext.Token) bool {
	kind, length := decoder.StackIndex(decoder.StackDepth())
	return token.Kind() == '"' && kind == '{' && length%2 == 1
}

// nextScalar reads the next value if it is a string or a number.
func nextScalar(decoder *jsontext.Decoder) (string, bool) {
	if kind := decoder.PeekKind(); kind != '"' && kind != '0' {
		return "", false
	}
	token, err := decoder.ReadToken()
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false
	}
	return Storable(token.String()), true
}

// Storable replaces what a database text cannot hold: NUL, and what is not UTF-8.
func Storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// SaysDuplicate reports whether a refusal says that the key was used before: a code that
// contains "duplicate" or is one of listed, in any case. Of a body that did not come
// whole any mention counts: a refusal must not be believed because it was cut.
func (r Reply) SaysDuplicate(codes Codes, listed []string) bool {
	for _, code := range codes.All {
		if speaksOfDuplicate(code, listed) {
			return true
		}
	}
	return r.Fault != "" && mentions(string(r.Body), listed)
}

func speaksOfDuplicate(code string, listed []string) bool {
	if strings.Contains(strings.ToLower(code), "duplicate") {
		return true
	}
	for _, known := range listed {
		if strings.EqualFold(code, known) {
			return true
		}
	}
	return false
}

func mentions(body string, listed []string) bool {
	body = strings.ToLower(body)
	if strings.Contains(body, "duplicate") {
		return true
	}
	for _, known := range listed {
		if known != "" && strings.Contains(body, strings.ToLower(known)) {
			return true
		}
	}
	return false
}
