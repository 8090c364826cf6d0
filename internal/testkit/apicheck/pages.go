package apicheck

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// Pages generates requests to the console and to River's pages, which no description
// lists: rightly and wrongly formed, with a session, without one and with an invalid one.
type Pages struct {
	*rand.Rand
	// Session is the value of an operator's cookie.
	Session string
	// Purchases are ids that exist.
	Purchases []string
}

// pagePaths are what the console and River serve; {id} is a purchase or a job.
var pagePaths = []string{
	"/console", "/console/", "/console/login", "/console/logout", "/console/style.css", "/console/purchases", "/console/purchases/{id}",
	"/console/purchases/{id}/resolution", "/console/purchases/{id}/reconciliation", "/console/switches/passes", "/console/findings", "/console/nothing",
	"/river", "/river/", "/river/jobs", "/river/api/jobs", "/river/api/jobs/{id}", "/river/api/jobs/cancel", "/river/api/jobs/retry",
	"/river/api/queues", "/river/api/queues/default", "/river/api/states", "/river/api/features", "/river/api/workflows/{id}", "/river/api/nothing",
}

var (
	pageMethods = []string{"GET", "GET", "GET", "POST", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"}
	formFields  = []string{"key", "next", "outcome", "note", "order_id", "cost", "paused", "id", "status", "account_id", "before", "said", "state", "limit", "kinds"}
	formValues  = []string{
		"", "x", "completed", "rejected", "false", "1.00", "-1", "1e9", "UNKNOWN", "available", "99999999999999999999", "/console/../..//evil.example",
		"\x00", "\xff\xfe", "\xed\xa0\x80", "<script>", "'; --", strings.Repeat("long", 3000), "00000000-0000-0000-0000-000000000000",
	}
	pageTypes = []string{"application/x-www-form-urlencoded", "application/json", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "", "x"}
)

// Request draws one.
func (p *Pages) Request() Request {
	path := one(p, pagePaths)
	r := Request{Method: one(p, pageMethods), Operation: path, Target: strings.ReplaceAll(path, "{id}", p.id())}
	if fields := p.fields(); fields != "" && p.IntN(2) == 0 {
		r.Target += "?" + fields
	}
	r.Header = p.header(path)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		r.Body, r.Chunked = []byte(p.body()), p.IntN(4) == 0
		r.Header = append(r.Header, Field{"Content-Type", one(p, pageTypes)})
	}
	return r
}

func (p *Pages) header(path string) []Field {
	header := []Field{{"Host", "holdfast"}}
	if accept := one(p, []string{"", "text/html", "*/*", "application/json", "image/png"}); accept != "" {
		header = append(header, Field{"Accept", accept})
	}
	session := one(p, []string{p.Session, p.Session, p.Session, "", "hf_session_" + strings.Repeat("a", 52), "x", "\x80"})
	if path == "/console/logout" {
		session = strings.ReplaceAll(session, p.Session, "") // the others need it
	}
	if session != "" {
		header = append(header, Field{"Cookie", "holdfast_session=" + session})
	}
	if p.IntN(5) == 0 {
		header = append(header, Field{"Sec-Fetch-Site", one(p, []string{"cross-site", "same-origin", "none", "x"})})
	}
	if p.IntN(5) == 0 {
		header = append(header, Field{"X-Forwarded-For", one(p, []string{"192.0.2.1", "x", strings.Repeat("1.1.1.1,", 500)})})
	}
	return header
}

func (p *Pages) id() string {
	return one(p, append([]string{"1", "0", "-1", "x", "%00", "%ff", "%2F", "%2e%2e", "99999999999999999999", strings.Repeat("1", 5000)}, p.Purchases...))
}

func (p *Pages) fields() string {
	pairs := make([]string, p.IntN(4))
	for i := range pairs {
		pairs[i] = one(p, formFields) + "=" + url.QueryEscape(one(p, formValues))
		if p.IntN(10) == 0 {
			pairs[i] = one(p, []string{"%zz", "=", ";", "%ff=1", "a=b;c=d"})
		}
	}
	return strings.Join(pairs, "&")
}

func (p *Pages) body() string {
	if p.IntN(3) == 0 {
		return one(p, []string{`{"ids":["1"]}`, `{"ids":[]}`, `{"ids":["x"]}`, `{"ids":"1"}`, `{`, `[]`, "\xff", strings.Repeat("x", 70_000), `{"concurrency":{}}`})
	}
	return p.fields()
}

func one[T any](p *Pages, from []T) T { return from[p.IntN(len(from))] }

// CheckPage finds what would be wrong with any answer of the console or of River.
func CheckPage(x Exchange) []error {
	faults := checkAnswer(x)
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if x.OwnFault() {
		faults = append(faults, errors.New("our own fault"))
	}
	if !strings.Contains(x.AnswerHeader.Get("Content-Security-Policy"), "frame-ancestors 'none'") || x.AnswerHeader.Get("X-Content-Type-Options") != "nosniff" {
		wrong("the answer lacks its security headers")
	}
	open := strings.HasPrefix(x.Target, "/console/style.css")
	if x.Status < 300 && !open && !strings.Contains(x.AnswerHeader.Get("Cache-Control"), "no-store") {
		wrong("the answer may be stored: %q", x.AnswerHeader.Get("Cache-Control"))
	}
	if to := x.AnswerHeader.Get("Location"); to != "" && !strings.HasPrefix(to, "/console") && !strings.HasPrefix(to, "/river/") {
		wrong("the answer leads to %q", to)
	}
	return faults
}
