// Package webhooktest is the receiving side of a webhook.
package webhooktest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Receiver stores what a webhook was sent and answers with a status.
type Receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	name   string
	value  string
	got    []Delivery
}

// Delivery is one request.
type Delivery struct {
	Header http.Header
	Body   []byte
}

// New starts a receiver, which ends with the test.
func New(t testing.TB, status int) *Receiver {
	t.Helper()
	r := &Receiver{status: status}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, Delivery{request.Header, body})
		if r.value != "" {
			w.Header().Set(r.name, r.value)
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

// Answer sets the status of the answers from now on.
func (r *Receiver) Answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// SetHeader adds a header to the answers from now on; an empty value removes it.
func (r *Receiver) SetHeader(name, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.value = name, value
}

// Deliveries returns the requests so far.
func (r *Receiver) Deliveries() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Delivery(nil), r.got...)
}
