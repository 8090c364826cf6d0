// Package apicheck holds exchanges with the API against its description, and makes
// requests out of the description: right ones, nearly right ones, and nonsense.
//
// Tests of api and of cmd/holdfast use it; the program does not.
package apicheck

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// Spec is a description that exchanges are held against.
type Spec struct {
	Document *openapi3.T
	routes   routers.Router
}

// registerTexts: the library keeps its decoders in one table of the whole process.
var registerTexts = sync.OnceFunc(func() {
	plain := openapi3filter.RegisteredBodyDecoder("text/plain")
	openapi3filter.RegisterBodyDecoder("text/html", plain)
	openapi3filter.RegisterBodyDecoder("text/event-stream", plain)
})

// Load reads a description and proves it valid.
func Load(ctx context.Context, document []byte) (*Spec, error) {
	registerTexts()
	read, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("read description: %w", err)
	}
	if err := read.Validate(ctx); err != nil {
		return nil, fmt.Errorf("validate description: %w", err)
	}
	routes, err := gorillamux.NewRouter(read)
	if err != nil {
		return nil, fmt.Errorf("read paths: %w", err)
	}
	return &Spec{Document: read, routes: routes}, nil
}

// Exchange is one request as it was sent, and its answer as it came.
type Exchange struct {
	Method, Target string
	Header         http.Header
	Body           []byte

	Status       int
	AnswerHeader http.Header
	Answer       []byte
}

// Check returns what about an exchange is not as described: the answer always, the
// request where it was taken. What the description does not have must not be found.
func (s *Spec) Check(ctx context.Context, x Exchange) []error {
	request, err := x.request(ctx)
	if err != nil {
		return nil // no HTTP: net/http itself refuses it
	}
	faults := checkAnswer(x)
	route, params, err := s.routes.FindRoute(request)
	if err != nil || x.Method == http.MethodHead && x.Status == http.StatusMethodNotAllowed {
		return append(faults, unrouted(x, request)...)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: params, Route: route, QueryParams: request.URL.Query(),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
			ExcludeResponseBody: x.Method == http.MethodHead,
		},
	}
	if x.Status < http.StatusMultipleChoices {
		if err := openapi3filter.ValidateRequest(ctx, input); err != nil {
			faults = append(faults, fmt.Errorf("it was taken and is not described: %w", err))
		}
	}
	err = openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: x.Status, Header: x.AnswerHeader,
		Body: io.NopCloser(bytes.NewReader(x.Answer)), Options: input.Options,
	})
	if err != nil {
		faults = append(faults, fmt.Errorf("answer %d is not as described: %w", x.Status, err))
	}
	return faults
}

// request is the exchange's request as the library reads one. HEAD is described by GET.
func (x Exchange) request(ctx context.Context) (*http.Request, error) {
	target, err := url.ParseRequestURI(x.Target)
	if err != nil {
		return nil, fmt.Errorf("read target: %w", err)
	}
	if !strings.Contains(strings.ToUpper(target.RawPath), "%2F") {
		target.RawPath = "" // what needs no encoding means the same with it
	}
	method := x.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", bytes.NewReader(x.Body))
	request.Method, request.URL, request.Header = method, target, x.Header
	return request, nil
}

// unrouted: what the description does not have is not found or not allowed, pages for
// people aside.
func unrouted(x Exchange, request *http.Request) []error {
	if x.Status == http.StatusNotFound || x.Status == http.StatusMethodNotAllowed || IsHTMLPage(request.URL.Path) {
		return nil
	}
	return []error{fmt.Errorf("%s %s answered %d and is not described", x.Method, request.URL.Path, x.Status)}
}

// IsHTMLPage reports whether a path is one of the pages, which no program asks for.
func IsHTMLPage(path string) bool {
	return path == "" || path == "/" || strings.HasPrefix(path, "/console") || strings.HasPrefix(path, "/river")
}
