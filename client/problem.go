package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// Problem is an error that Holdfast itself answers with (RFC 9457). A broker's refusal is
// none: it is a purchase with the outcome "rejected".
//
//nolint:errname // RFC 9457's own word; a caller reads it as a document too.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors"`
	// RetryAfter is how long to wait at least before another try; 0 where not said.
	RetryAfter time.Duration `json:"-"`
}

// FieldError names one thing at fault.
type FieldError struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Slug is the kind of problem, such as "insufficient-funds".
func (p *Problem) Slug() string { return path.Base(p.Type) }

func (p *Problem) Error() string {
	text := fmt.Sprintf("%d %s: %s", p.Status, p.Slug(), p.Detail)
	if len(p.Errors) < 2 {
		return text
	}
	faults := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		faults[i] = e.Location + " " + e.Message
	}
	return text + ": " + strings.Join(faults, "; ")
}

// problemIn returns the problem that an answer is, nil where it is none. Whatever is not
// Holdfast's own answer (a proxy's page) is a problem without a kind.
func problemIn(response *http.Response, body []byte) error {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	p := &Problem{}
	switch {
	case kind == "application/problem+json" && json.Unmarshal(body, p) == nil:
	case kind == "application/json" && response.StatusCode != http.StatusBadGateway:
		return nil
	default:
		p = &Problem{Type: "about:unexpected", Detail: "this is not an answer of Holdfast"}
	}
	p.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p
}
