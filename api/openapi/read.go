package openapi

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// document is what the page shows of the description, in the order it is written in.
type document struct {
	Info struct {
		Title, Summary, Description string
	}
	Tags       []struct{ Name, Description string }
	Paths      ordered[path]
	Components struct {
		Parameters map[string]parameter
		Responses  map[string]response
		Examples   map[string]example
		Schemas    ordered[schema]
	}
}

type path struct {
	Parameters []parameter
	Get        *operation
	Post       *operation
	Put        *operation
	Patch      *operation
}

// Operations returns the path's operations with their methods.
func (p path) Operations() []methodOf {
	var all []methodOf
	for _, m := range []methodOf{{"POST", p.Post}, {"PUT", p.Put}, {"PATCH", p.Patch}, {"GET", p.Get}} {
		if m.Operation != nil {
			m.Operation.Parameters = append(slices.Clone(p.Parameters), m.Operation.Parameters...)
			all = append(all, m)
		}
	}
	return all
}

type methodOf struct {
	Method    string
	Operation *operation
}

type operation struct {
	Tags        []string
	OperationID string `yaml:"operationId"`
	Summary     string
	Description string
	Parameters  []parameter
	RequestBody struct {
		Content ordered[media]
	} `yaml:"requestBody"`
	Responses ordered[response]
}

type parameter struct {
	Ref         string `yaml:"$ref"`
	Name        string
	In          string
	Required    bool
	Description string
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Headers     ordered[any]
	Content     ordered[media]
}

type media struct {
	Schema   schema
	Example  any
	Examples ordered[example]
}

type example struct {
	Ref     string `yaml:"$ref"`
	Summary string
	Value   any
}

type schema struct {
	Ref         string `yaml:"$ref"`
	Type        any
	Description string
	Pattern     string
	Enum        []any
	Const       any
	Required    []string
	Properties  ordered[schema]
	Items       *schema
}

// Kind says in a few words what a schema takes.
func (s schema) Kind() string {
	switch {
	case s.Ref != "":
		return last(s.Ref)
	case s.Const != nil:
		return fmt.Sprintf("%q", s.Const)
	case len(s.Enum) > 0:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Enum...), "[]"), "<nil>", " null")
	case s.Items != nil:
		return "list of " + s.Items.Kind()
	}
	if kinds, several := s.Type.([]any); several {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(kinds), "[]"), " ", " or ")
	}
	if s.Type == nil {
		return "anything"
	}
	return fmt.Sprint(s.Type)
}

// ordered is a mapping that keeps the order it was written in.
type ordered[V any] []entry[V]

type entry[V any] struct {
	Key   string
	Value V
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *ordered[V]) UnmarshalYAML(node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		e := entry[V]{Key: node.Content[i].Value}
		if err := node.Content[i+1].Decode(&e.Value); err != nil {
			return err
		}
		*o = append(*o, e)
	}
	return nil
}

func read() *document {
	var d document
	if err := yaml.Unmarshal(source, &d); err != nil {
		panic(fmt.Errorf("read openapi.yaml: %w", err))
	}
	for i := range d.Paths {
		for _, m := range d.Paths[i].Value.Operations() {
			d.resolve(m.Operation)
		}
		d.Paths[i].Value.Parameters = nil
	}
	return &d
}

// resolve puts what an operation refers to in its place.
func (d *document) resolve(o *operation) {
	for i, p := range o.Parameters {
		if p.Ref != "" {
			o.Parameters[i] = d.Components.Parameters[last(p.Ref)]
		}
	}
	for i, r := range o.Responses {
		if r.Value.Ref != "" {
			o.Responses[i].Value = d.Components.Responses[last(r.Value.Ref)]
		}
		for _, content := range o.Responses[i].Value.Content {
			d.resolveExamples(content.Value.Examples)
		}
	}
}

func (d *document) resolveExamples(examples ordered[example]) {
	for i, e := range examples {
		if e.Value.Ref != "" {
			examples[i].Value = d.Components.Examples[last(e.Value.Ref)]
		}
	}
}

func last(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }
