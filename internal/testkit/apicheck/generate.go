package apicheck

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Keys are who may ask: an operator, the client that the known values are of, and
// others, some of whom nobody knows.
type Keys struct {
	Client, Operator, Broker string
	Others                   []string
}

// Generator makes requests out of a description. What it draws depends on its random
// numbers only.
type Generator struct {
	*rand.Rand
	Keys Keys
	// Known are values that mean something to the API, by operation and name
	// ("createAccount.id") or by name alone. A func(*Generator) any makes them.
	Known map[string][]any

	operations []operation
}

// operation is one thing that the description offers.
type operation struct {
	*openapi3.Operation
	method, path string
	parameters   []*openapi3.Parameter
}

// NewGenerator returns a generator of requests to all that spec describes.
func NewGenerator(spec *Spec, random *rand.Rand, keys Keys, known map[string][]any) *Generator {
	g := &Generator{Rand: random, Keys: keys, Known: known}
	for _, path := range spec.Document.Paths.InMatchingOrder() {
		item := spec.Document.Paths.Value(path)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch} {
			described := item.GetOperation(method)
			if described == nil {
				continue
			}
			o := operation{Operation: described, method: method, path: path}
			for _, p := range slices.Concat(item.Parameters, described.Parameters) {
				o.parameters = append(o.parameters, p.Value)
			}
			g.operations = append(g.operations, o)
		}
	}
	return g
}

// Operations are the names of all that is described.
func (g *Generator) Operations() []string {
	names := make([]string, len(g.operations))
	for i, o := range g.operations {
		names[i] = o.OperationID
	}
	return names
}

// Request is one to be sent byte by byte: its header may have a name twice, or what no
// client library would send.
type Request struct {
	Method, Target string
	Header         []Field
	Body           []byte
	// Chunked: the body goes without its length.
	Chunked bool

	Operation string
	// Spoilt names what was done to it. Where nothing was, it is as described, from a key
	// that may ask it: it must not be refused as malformed.
	Mutations []string
}

// Field is one line of a header, or one part of a query.
type Field struct{ Name, Value string }

// Request draws one: half of them are as described.
func (g *Generator) Request() Request {
	o := pick(g, g.operations)
	if o.RequestBody == nil && g.chance(60) { // what takes a body can go wrong in more ways
		o = pick(g, g.operations)
	}
	d := g.draft(o)
	if g.chance(50) {
		for range 1 + g.IntN(2) {
			g.mutate(d)
		}
	}
	return d.request()
}

// draft is a request in parts, as spoiling needs them.
type draft struct {
	operation operation
	method    string
	path      string
	query     []Field
	header    []Field
	members   []Field // of the body: a name and its JSON
	body      []byte  // in place of members, where it is not nil
	chunked   bool
	spoilt    []string
}

func (g *Generator) draft(o operation) *draft {
	d := &draft{operation: o, method: o.method, path: o.path}
	d.header = append(d.header, Field{"Host", "holdfast"})
	if key := g.key(o); key != "" {
		d.header = append(d.header, Field{"Authorization", "Bearer " + key})
	}
	for _, p := range o.parameters {
		value := fmt.Sprint(g.value(o, p.Name, p.Schema.Value))
		switch {
		case p.In == "path":
			d.path = strings.ReplaceAll(d.path, "{"+p.Name+"}", url.PathEscape(value))
		case !p.Required && g.chance(50):
		case p.In == "query":
			d.query = append(d.query, Field{p.Name, value})
		default:
			d.header = append(d.header, Field{p.Name, value})
		}
	}
	if schema := o.body(); schema != nil {
		d.header = append(d.header, Field{"Content-Type", "application/json"})
		d.members = g.object(o, schema)
	}
	return d
}

// body is the schema of what the operation takes, nil where it takes nothing.
func (o operation) body() *openapi3.Schema {
	if o.RequestBody == nil {
		return nil
	}
	return o.RequestBody.Value.Content["application/json"].Schema.Value
}

// key is one that may ask for the operation.
func (g *Generator) key(o operation) string {
	switch {
	case o.Security != nil && len(*o.Security) == 0:
		return ""
	case slices.Contains(o.Tags, "Brokers"):
		return g.Keys.Broker
	case slices.Contains(o.Tags, "Operators"):
		return g.Keys.Operator
	}
	return g.Keys.Client
}

// object draws a sound one: what is required, and some of the rest. Of several sets of
// fields that exclude each other it has one.
func (g *Generator) object(o operation, schema *openapi3.Schema) []Field {
	required, excluded := slices.Clone(schema.Required), []string{}
	if len(schema.OneOf) > 0 {
		chosen := g.IntN(len(schema.OneOf))
		for i, one := range schema.OneOf {
			if i == chosen {
				required = append(required, one.Value.Required...)
			} else {
				excluded = append(excluded, one.Value.Required...)
			}
		}
	}
	members := []Field{} // an object without members is a body, too
	for _, name := range sortedNames(schema.Properties) {
		wanted := slices.Contains(required, name) || !slices.Contains(excluded, name) && g.chance(40)
		if wanted {
			members = append(members, Field{name, text(g.value(o, name, schema.Properties[name].Value))})
		}
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// sortedNames: a map's own order would not depend on the seed alone.
func sortedNames(properties openapi3.Schemas) []string {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// value draws a sound one for a field or a parameter.
func (g *Generator) value(o operation, name string, schema *openapi3.Schema) any {
	known := g.Known[o.OperationID+"."+name]
	if known == nil {
		known = g.Known[name]
	}
	switch {
	case len(known) > 0:
		drawn := pick(g, known)
		if draw, ok := drawn.(func(*Generator) any); ok {
			return draw(g)
		}
		return drawn
	case len(schema.Enum) > 0:
		return pick(g, schema.Enum)
	case schema.Type.Is("boolean"):
		return g.chance(50)
	case schema.Type.Is("integer"):
		return int(*schema.Min) + g.IntN(int(*schema.Max-*schema.Min)+1)
	case schema.Pattern != "":
		return g.matching(schema.Pattern)
	}
	return "x"
}

func text(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return "null"
	}
	return string(raw)
}

func pick[T any](g *Generator, from []T) T { return from[g.IntN(len(from))] }

func (g *Generator) chance(percent int) bool { return g.IntN(100) < percent }

func (d *draft) request() Request {
	r := Request{
		Method: d.method, Target: d.path, Header: d.header, Body: d.body, Chunked: d.chunked,
		Operation: d.operation.OperationID, Mutations: d.spoilt,
	}
	if r.Body == nil && d.members != nil {
		parts := make([]string, len(d.members))
		for i, m := range d.members {
			parts[i] = text(m.Name) + ":" + m.Value
		}
		r.Body = []byte("{" + strings.Join(parts, ",") + "}")
	}
	for i, q := range d.query {
		mark := "&"
		if i == 0 {
			mark = "?"
		}
		r.Target += mark + url.QueryEscape(q.Name) + "=" + url.QueryEscape(q.Value)
	}
	return r
}
