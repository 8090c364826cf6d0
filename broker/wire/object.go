package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// byteOrderMark may begin a body and says nothing.
var byteOrderMark = []byte("\ufeff")

func withoutMark(body []byte) []byte { return bytes.TrimPrefix(body, byteOrderMark) }

var (
	errNoObject = errors.New("body is not one JSON object")
	errNoArray  = errors.New("body is not one JSON array")
)

// lenient reads what no decision depends on, whatever its content, encoding or repetition.
func lenient(body []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewReader(withoutMark(body)),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Object reads the members of the JSON object body that fields names, each as it was
// written; the reader of a value checks its content. A member that fields names may appear
// once, nothing may follow the object, and any other member is ignored.
func Object(body []byte, fields map[string]*jsontext.Value) error {
	decoder := lenient(body)
	if decoder.PeekKind() != '{' {
		return errNoObject
	}
	if _, err := decoder.ReadToken(); err != nil {
		return errNoObject
	}
	for decoder.PeekKind() == '"' {
		if err := readMember(decoder, fields); err != nil {
			return err
		}
	}
	return endObject(decoder)
}

func readMember(decoder *jsontext.Decoder, fields map[string]*jsontext.Value) error {
	token, err := decoder.ReadToken()
	if err != nil {
		return errNoObject
	}
	name := token.String() // the next read ends the token
	field, named := fields[name]
	value, err := decoder.ReadValue()
	switch {
	case err != nil:
		return errNoObject
	case !named:
		return nil
	case *field != nil:
		return fmt.Errorf("member %s appears more than once", name)
	}
	*field = value.Clone()
	return nil
}

func endObject(decoder *jsontext.Decoder) error {
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '}' {
		return errNoObject
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errNoObject
	}
	return nil
}

// Array reads the elements of the JSON array body, each as it was written.
func Array(body []byte) ([]jsontext.Value, error) {
	decoder := lenient(body)
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '[' {
		return nil, errNoArray
	}
	var elements []jsontext.Value
	for kind := decoder.PeekKind(); kind != ']'; kind = decoder.PeekKind() {
		element, err := decoder.ReadValue()
		if err != nil {
			return nil, errNoArray
		}
		elements = append(elements, element.Clone())
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, errNoArray
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errNoArray
	}
	return elements, nil
}
