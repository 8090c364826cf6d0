package api

import (
	"cmp"
	"net/http"
	"slices"
	"sync"

	"github.com/go-chi/chi/v5"

	"holdfast/api/openapi"
)

// docsPolicy is what the docs' page needs of a browser: the style that stands in it.
const docsPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"

var docsPage = sync.OnceValue(func() []byte { return openapi.Page(problemTable()) })

// problemTable lists all problems by status.
func problemTable() []openapi.Problem {
	table := make([]openapi.Problem, 0, len(kinds))
	for s, k := range kinds {
		table = append(table, openapi.Problem{Slug: string(s), Status: k.status, Title: k.title})
	}
	slices.SortFunc(table, func(a, b openapi.Problem) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Slug, b.Slug))
	})
	return table
}

// home leads a person who has only the address to what it is.
func home(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, "/docs", http.StatusSeeOther)
	return nil
}

func openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Cache-Control", "max-age=300")
	answerBytes(w, http.StatusOK, openapi.JSON())
	return nil
}

func docs(w http.ResponseWriter, _ *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", docsPolicy)
	h.Set("Cache-Control", "max-age=300")
	w.Write(docsPage())
	return nil
}

// docsOfProblem is where a problem's type leads.
func docsOfProblem(w http.ResponseWriter, r *http.Request) error {
	named := slug(chi.URLParam(r, "slug"))
	if _, known := kinds[named]; !known {
		return because(notFound, "there is no such problem")
	}
	http.Redirect(w, r, "/docs#"+string(named), http.StatusSeeOther) //nolint:gosec // A name out of our own table.
	return nil
}
