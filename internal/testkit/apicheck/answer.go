package apicheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	problemMedia = "application/problem+json"
	problemPath  = "/docs/problems/"
)

// Problem is a problem document (RFC 9457) as a client reads one.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Errors []struct {
		Location string `json:"location"`
		Message  string `json:"message"`
	} `json:"errors"`
}

// Slug is the last part of the problem's type.
func (p Problem) Slug() string { return strings.TrimPrefix(p.Type, problemPath) }

// Problem reads the answer as a problem; false where it is none.
func (x Exchange) Problem() (Problem, bool) {
	var p Problem
	is := x.AnswerHeader.Get("Content-Type") == problemMedia && json.Unmarshal(x.Answer, &p) == nil
	return p, is
}

// OwnFault reports whether the answer admits a mistake of the server's.
func (x Exchange) OwnFault() bool {
	return x.Status >= http.StatusInternalServerError && x.Status != http.StatusServiceUnavailable
}

// checkAnswer finds what would be wrong with any answer, described or not.
func checkAnswer(x Exchange) []error {
	var faults []error
	if x.AnswerHeader.Get("X-Request-Id") == "" {
		faults = append(faults, errors.New("the answer has no X-Request-Id"))
	}
	media := x.AnswerHeader.Get("Content-Type")
	if strings.Contains(media, "json") && x.Method != http.MethodHead {
		// Strict: one value, no name twice in an object, and UTF-8 throughout.
		if !jsontext.Value(x.Answer).IsValid() {
			faults = append(faults, errors.New("the answer is not one valid JSON value"))
		}
	}
	if media == problemMedia && x.Method != http.MethodHead {
		faults = append(faults, checkProblem(x)...)
	}
	return append(faults, checkHeaders(x)...)
}

func checkHeaders(x Exchange) []error {
	var faults []error
	for status, name := range map[int]string{
		http.StatusServiceUnavailable: "Retry-After", http.StatusMethodNotAllowed: "Allow", http.StatusUnauthorized: "Www-Authenticate",
	} {
		_, problem := x.Problem()
		if problem && x.Status == status && x.AnswerHeader.Get(name) == "" {
			faults = append(faults, fmt.Errorf("a %d without %s", status, name))
		}
	}
	return faults
}

func checkProblem(x Exchange) []error {
	p, ok := x.Problem()
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case !ok:
		wrong("the problem cannot be read")
	case p.Status != x.Status:
		wrong("the problem says %d and the answer %d", p.Status, x.Status)
	case !strings.HasPrefix(p.Type, problemPath) || p.Slug() == "":
		wrong("the problem's type is %q", p.Type)
	case p.Title == "" || p.Detail == "":
		wrong("the problem has no title or no detail")
	case p.Slug() == "invalid-request" && len(p.Errors) == 0:
		wrong("the problem names no field")
	}
	for _, e := range p.Errors {
		if e.Message == "" {
			wrong("the problem has a fault without a message")
		}
	}
	return faults
}
