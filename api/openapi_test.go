package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-chi/chi/v5"

	"holdfast/api"
	"holdfast/api/openapi"
)

func init() { //nolint:gochecknoinits // The library keeps its decoders in one table.
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.RegisteredBodyDecoder("text/plain"))
}

var description = sync.OnceValues(func() (*openapi3.T, error) {
	document, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	if err != nil {
		return nil, err
	}
	return document, document.Validate(context.Background())
})

var describedRoutes = sync.OnceValues(func() (routers.Router, error) {
	document, err := description()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(document)
})

// describe holds an exchange against the description: every answer, and the request
// where it was taken. Routes that are none and methods that are wrong have no
// description to be held against.
func describe(t *testing.T, sent *http.Request, body string, a *answer) {
	t.Helper()
	routes, err := describedRoutes()
	if err != nil {
		t.Fatalf("read description: %v", err)
	}
	request := httptest.NewRequest(sent.Method, sent.URL.RequestURI(), strings.NewReader(body))
	request.Header = sent.Header
	route, params, err := routes.FindRoute(request)
	if err != nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed && !undescribed(sent) {
			t.Errorf("%s %s answered %d and is not described: %v", sent.Method, sent.URL.Path, a.status, err)
		}
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: request, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}
	if a.status < http.StatusMultipleChoices {
		if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
			t.Errorf("%s %s was taken and is not described: %v", sent.Method, sent.URL, err)
		}
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header,
		Body: io.NopCloser(bytes.NewReader(a.body)), Options: input.Options,
	})
	if err != nil {
		t.Errorf("%s %s: answer %d is not as described: %v\n%s", sent.Method, sent.URL, a.status, err, a.body)
	}
}

// undescribed: pages for people, and HEAD, which every GET has.
func undescribed(r *http.Request) bool {
	return r.Method == http.MethodHead || forPeople(r.URL.Path)
}

func forPeople(path string) bool {
	return path == "/" || strings.HasPrefix(path, "/console") || strings.HasPrefix(path, "/river")
}

func TestDescriptionIsValidAndServed(t *testing.T) {
	t.Parallel()
	if _, err := description(); err != nil {
		t.Fatal(err)
	}
	w := setup(t)
	a := w.get("/openapi.json", "").wantStatus(200).wantHeader("Content-Type", "application/json")
	a.wantText("openapi", "3.1.0")
}

func TestDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	t.Parallel()
	document, err := description()
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	w := setup(t)
	var routed []string
	err = chi.Walk(api.Router(w.params), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodHead && !forPeople(route) {
			routed = append(routed, method+" "+route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described:\n%s\nrouted:\n%s", strings.Join(described, "\n"), strings.Join(routed, "\n"))
	}
}

func TestDocsLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.get("/docs", "").wantStatus(200).wantHeader("Content-Type", "text/html; charset=utf-8")
	page := string(a.body)
	for _, outside := range []string{"<script", "src=", "http://", "https://", "@import", "<link"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page contains %q", outside)
		}
	}
	for _, inside := range []string{"/v1/purchases/{id}/resolution", `id="insufficient-funds"`, "Idempotency-Key", "pending_reconciliation"} {
		if !strings.Contains(page, inside) {
			t.Errorf("the page lacks %q", inside)
		}
	}
	w.get("/docs/problems/not-found", "").wantStatus(303).wantHeader("Location", "/docs#not-found")
	w.get("/", "").wantStatus(303).wantHeader("Location", "/docs")
	w.get("/docs/problems/nothing", "").wantProblem(404, "not-found")
}
