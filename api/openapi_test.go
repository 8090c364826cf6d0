package api_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"

	"holdfast/api"
	"holdfast/api/openapi"
	"holdfast/internal/testkit/apicheck"
)

var description = sync.OnceValues(func() (*apicheck.Spec, error) {
	return apicheck.Load(context.Background(), openapi.JSON())
})

// describe holds an exchange against the description: every answer, and the request
// where it was taken.
func describe(t *testing.T, sent *http.Request, body string, a *answer) {
	t.Helper()
	spec, err := description()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range spec.Check(t.Context(), apicheck.Exchange{
		Method: sent.Method, Target: sent.URL.RequestURI(), Header: sent.Header, Body: []byte(body),
		Status: a.status, AnswerHeader: a.header, Answer: a.body,
	}) {
		t.Errorf("%s %s: %v\n%s", sent.Method, sent.URL, fault, a.body)
	}
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
	spec, err := description()
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range spec.Document.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	w := setup(t)
	var routed []string
	err = chi.Walk(api.Router(w.params), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodHead && !apicheck.IsHTMLPage(route) {
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
