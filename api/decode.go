package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxBody is the most bytes a request may have: 64 kB.
	maxBody = 64 << 10
	// maxPassedOver is how much more than that is read, and thrown away.
	maxPassedOver = 1 << 20
	// maxErrors bounds how many faults one answer lists.
	maxErrors = 32
)

// body is a JSON object that a client sent, and what is found wrong with it: a reader
// takes each field, and all faults are told at once.
type body struct {
	fields map[string]jsontext.Value
	taken  map[string]bool
	// order keeps the fields' order, so that faults are told in it.
	order  []string
	faults []fieldError
}

// decode reads the request's JSON object. What it returns is not yet right: the caller
// takes the fields it knows and then asks for [body.problem].
func decode(r *http.Request) (*body, error) {
	if err := checkMediaType(r); err != nil {
		return nil, err
	}
	raw, err := readBody(r)
	if err != nil {
		return nil, err
	}
	b := &body{fields: map[string]jsontext.Value{}, taken: map[string]bool{}}
	if err := b.read(raw); err != nil {
		return nil, err
	}
	return b, nil
}

func checkMediaType(r *http.Request) error {
	wrong := because(unsupportedMediaType, "Content-Type must be application/json, in UTF-8 and without a Content-Encoding")
	given := r.Header.Values("Content-Type")
	if len(given) != 1 || r.Header.Get("Content-Encoding") != "" {
		return wrong
	}
	media, params, err := mime.ParseMediaType(given[0])
	if err != nil || media != "application/json" {
		return wrong
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return wrong
	}
	return nil
}

// readBody returns what [receive] has read.
func readBody(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, bodyProblem(err)
	}
	return raw, nil
}

func bodyProblem(err error) error {
	if errors.Is(err, errBodyTooLarge) {
		return because(tooLarge, fmt.Sprintf("a request may have %d bytes", maxBody))
	}
	return invalid(fieldError{"body", "did not arrive completely"})
}

// read splits the object into its fields. A broken document ends it at once; a
// repeated name is one fault among the others.
func (b *body) read(raw []byte) error {
	if !utf8.Valid(raw) {
		return invalid(fieldError{"body", "must be valid UTF-8"})
	}
	// Both are faults that are told by field, below and where the field is read.
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	start, err := d.ReadToken()
	if err != nil {
		return invalid(fieldError{"body", "must be one JSON object"})
	}
	if start.Kind() != '{' {
		return invalid(fieldError{"body", "must be a JSON object"})
	}
	for d.PeekKind() != '}' {
		if err := b.readField(d); err != nil {
			return brokenJSON(d, err)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return brokenJSON(d, err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalid(fieldError{"body", "must end after its JSON object"})
	}
	return nil
}

// brokenJSON says where a document breaks off or goes wrong.
func brokenJSON(d *jsontext.Decoder, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return invalid(fieldError{"body", "ends before its JSON object does"})
	}
	at := d.InputOffset()
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		at = syntax.ByteOffset
	}
	return invalid(fieldError{"body", fmt.Sprintf("is not valid JSON at byte %d", at)})
}

func (b *body) readField(d *jsontext.Decoder) error {
	name, err := d.ReadToken()
	if err != nil {
		return err
	}
	field := name.String()
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if _, twice := b.fields[field]; twice {
		b.fault(field, "stands there more than once")
		return nil
	}
	b.fields[field] = value.Clone()
	b.order = append(b.order, field)
	return nil
}

func (b *body) fault(location, message string) {
	b.faults = append(b.faults, fieldError{shorten(location), message})
}

// take returns a field's value; false if it is absent. A field that is null is absent.
func (b *body) take(field string) (jsontext.Value, bool) {
	b.taken[field] = true
	return b.fields[field], b.has(field)
}

// has reports whether the client sent a field.
func (b *body) has(field string) bool {
	value, ok := b.fields[field]
	return ok && value.Kind() != 'n'
}

// problem returns what is wrong with the object, unknown fields included, or nil. It
// is asked once, after all fields were taken.
func (b *body) problem() error {
	for _, field := range b.order {
		if !b.taken[field] {
			b.fault(field, "is not a field of this request")
		}
	}
	if len(b.faults) == 0 {
		return nil
	}
	return invalid(b.faults[:min(len(b.faults), maxErrors)]...)
}

// shorten keeps what a client made up from filling the answer, and from breaking it.
func shorten(name string) string {
	const most = 64
	name = strings.ToValidUTF8(name, "\uFFFD")
	if utf8.RuneCountInString(name) <= most {
		return name
	}
	return string([]rune(name)[:most]) + "…"
}
