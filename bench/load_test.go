package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every purchase has a key of its own and its account's key, and is counted once.
func TestLoad(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys[r.Header.Get("Idempotency-Key")] = true
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, strings.Repeat("x", 5000)) // chunked, as a long answer is
	}))
	defer server.Close()
	d := load{addr: server.Listener.Addr().String(), clients: 4, accounts: 3, want: 20, until: time.Now().Add(time.Minute)}
	latencies, took, err := d.run(context.Background())
	if err != nil || len(latencies) != 20 || len(keys) != 20 || took <= 0 {
		t.Errorf("%d latencies, %d keys, %v: want 20 of each", len(latencies), len(keys), err)
	}
}

// An answer that is no completed purchase fails the measurement: fast refusals must not
// look like speed.
func TestLoadFailsOnRefusal(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "too many", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	d := load{addr: server.Listener.Addr().String(), clients: 1, accounts: 1, want: 1, until: time.Now().Add(time.Minute)}
	if _, _, err := d.run(context.Background()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("error %v", err)
	}
}
