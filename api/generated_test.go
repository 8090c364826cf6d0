package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// generator makes requests out of the description: right ones, nearly right ones, and
// nonsense. What it draws depends on its seed only.
type generator struct {
	*rand.Rand
	known map[string][]any // values that mean something, by name
}

var oddities = []any{
	"", " ", "0", "-1", "1e9", "NaN", "10", "0.5", "99999999999999999999", "25.00", "x", "\x00", "ä", "\u202e", "\ufffd",
	"'; DROP TABLE account; --", "../../etc/passwd", strings.Repeat("x", 300), nil, true, 0, -1, 1.5, 1e300,
	[]any{}, []any{[]any{}}, map[string]any{}, map[string]any{"a": nil}, "2h", "null",
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// value draws one for a field: often one that means something.
func (g *generator) value(name string, schema *openapi3.Schema) any {
	switch {
	case g.chance(12):
		return pick(g, oddities)
	case len(g.known[name]) > 0:
		return pick(g, g.known[name])
	case len(schema.Enum) > 0:
		return pick(g, schema.Enum)
	case schema.Type.Is("boolean"):
		return g.chance(50)
	case schema.Type.Is("object"):
		return g.object(schema)
	}
	return pick(g, oddities)
}

func (g *generator) object(schema *openapi3.Schema) map[string]any {
	o := map[string]any{}
	for name, property := range schema.Properties {
		if g.chance(80) {
			o[name] = g.value(name, property.Value)
		}
	}
	if g.chance(5) {
		o[fmt.Sprint(pick(g, oddities))] = pick(g, oddities)
	}
	return o
}

func (g *generator) body(operation *openapi3.Operation) any {
	if operation.RequestBody == nil {
		return nil
	}
	body := g.object(operation.RequestBody.Value.Content["application/json"].Schema.Value)
	if _, notional := body["notional"]; notional && g.chance(50) {
		delete(body, "quantity")
		delete(body, "limit_price")
	} else if g.chance(80) {
		delete(body, "notional")
	}
	raw, _ := json.Marshal(body)
	if g.chance(8) {
		return string(raw[:g.IntN(len(raw))])
	}
	return string(raw)
}

func (g *generator) request(method, path string, item *openapi3.PathItem, operation *openapi3.Operation, keys []string) request {
	r := request{method: method, key: pick(g, keys), body: g.body(operation), header: http.Header{}}
	query := url.Values{}
	for _, p := range slices.Concat(item.Parameters, operation.Parameters) {
		value := fmt.Sprint(g.value(p.Value.Name, p.Value.Schema.Value))
		if value == "" && p.Value.In == "path" {
			value = "-" // an empty segment is another path
		}
		switch {
		case p.Value.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", url.PathEscape(value))
		case g.chance(40) && !p.Value.Required:
		case p.Value.In == "query":
			query.Add(p.Value.Name, value)
		case !sendable(value):
		default:
			r.header.Set(p.Value.Name, value)
		}
	}
	if kind := fmt.Sprint(pick(g, oddities)); sendable(kind) && g.chance(5) {
		r.header.Set("Content-Type", kind)
	}
	r.path = path
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
	return r
}

// times: what takes a body can go wrong in more ways.
func times(operation *openapi3.Operation) int {
	if operation.RequestBody == nil {
		return 1
	}
	return 4
}

// sendable: net/http sends nothing else in a header.
func sendable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
}

// rounds is how often each operation is asked, within the test's patience.
const (
	rounds   = 40
	patience = 20 * time.Second
)

// TestGeneratedRequests asks for everything that the description offers, rightly and
// wrongly: nothing may be our own fault, and no answer undescribed.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	document, err := description()
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), known: map[string][]any{
		"account_id": {"acct-1", "acct-1", "acct-2"}, "symbol": {"AAPL", "ERR500", "REJECT", "DROP-BOOKED", "CHEAP"},
		"quantity": {"1", "0.5", "10.000"}, "limit_price": {"1.00", "0.000001", "25"}, "notional": {"1", "10.00", "0.001"},
		"currency": {"USD", "EUR", "JPY"}, "id": {w.review(), w.buy(order(nil)).text("id"), w.buy(order(fields{"symbol": "ERR500"})).text("id"), "acct-1"},
		"amount": {"1.00", "5"}, "available": {"0", "5.00"}, "cost": {"1.00"}, "note": {"n"}, "limit": {1, 50, 500, 501},
		"slug": {"not-found"}, "name": {"intake", "passes"}, "paused": {false}, "older_than": {"1h"}, "Prefer": {"wait=0", "wait=x"},
		"Idempotency-Key": {"a", "b", "c", "d", "e"},
	}}
	keys := []string{w.client, w.client, w.operator, w.operator, w.other, "", "wrong"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := map[int]int{}
	for range rounds {
		for _, path := range document.Paths.InMatchingOrder() {
			item := document.Paths.Value(path)
			for method, operation := range item.Operations() {
				if path == "/v1/events" {
					continue // its answer has no end
				}
				for range times(operation) {
					if ctx.Err() != nil {
						return
					}
					r := g.request(method, path, item, operation, keys)
					a := w.do(r)
					seen[a.status]++
					if a.status == http.StatusInternalServerError {
						t.Errorf("%s %s %v: %s", r.method, r.path, r.body, a.body)
					}
				}
			}
		}
	}
	for _, status := range []int{200, 201, 400, 401, 403, 404} {
		if seen[status] == 0 {
			t.Errorf("never answered %d: %v", status, seen)
		}
	}
	t.Logf("answers by status: %v", seen)
}
