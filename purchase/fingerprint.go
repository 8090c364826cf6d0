package purchase

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"holdfast/broker"
)

// fingerprint hashes a request: equal if it is repeated, whatever the order of its fields
// and the zeros behind its decimals.
func fingerprint(order broker.Order, validUntil *time.Time, metadata string) ([]byte, error) {
	canonicalRequest, err := canonicalJSON(metadata)
	if err != nil {
		return nil, err
	}
	return hashOf(
		order.Account, order.Symbol, order.Currency, byValue(order.Quantity), byValue(order.LimitPrice),
		byValue(order.Notional), instant(validUntil), canonicalRequest,
	), nil
}

// hashOf returns the SHA-256 of strings, each after its length in 8 bytes, big endian: so
// that no two lists of strings run together.
func hashOf(parts ...string) []byte {
	hash := sha256.New()
	for _, part := range parts {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part)))
		hash.Write([]byte(part))
	}
	return hash.Sum(nil)
}

func byValue(d decimal.NullDecimal) string {
	if !d.Valid {
		return ""
	}
	return d.Decimal.String()
}

// canonicalJSON writes a JSON text so that equal values give equal strings: names
// sorted, numbers by value, strings unescaped.
func canonicalJSON(text string) (string, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", fmt.Errorf("read metadata: %w", err)
	}
	var out strings.Builder
	writeCanonical(&out, value)
	return out.String(), nil
}

func writeCanonical(out *strings.Builder, value any) {
	switch v := value.(type) {
	case map[string]any:
		writeObject(out, v)
	case []any:
		out.WriteByte('[')
		for _, item := range v {
			writeCanonical(out, item)
			out.WriteByte(',')
		}
		out.WriteByte(']')
	case json.Number:
		out.WriteString(canonicalNumber(v.String()))
	case string:
		fmt.Fprintf(out, "%q", v)
	default:
		fmt.Fprint(out, v)
	}
}

func writeObject(out *strings.Builder, object map[string]any) {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	out.WriteByte('{')
	for _, name := range names {
		fmt.Fprintf(out, "%q:", name)
		writeCanonical(out, object[name])
		out.WriteByte(',')
	}
	out.WriteByte('}')
}

// canonicalNumber writes a JSON number as digits and a power of ten, so that 1e2, 100
// and 100.0 are one, without ever expanding an exponent.
func canonicalNumber(number string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	power := new(big.Int)
	if exponent != "" {
		power.SetString(strings.TrimPrefix(exponent, "+"), 10)
	}
	trimmed := strings.TrimRight(digits, "0")
	power.Add(power, big.NewInt(int64(len(digits)-len(trimmed)-len(fraction))))
	return sign + trimmed + "e" + power.String()
}
