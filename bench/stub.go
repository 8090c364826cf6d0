package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// stub is a broker that completes every order, after a delay. It remembers nothing: an
// order's answer follows from its key, so a lookup finds whatever it is asked for.
type stub struct {
	listener net.Listener
	server   *http.Server
	// delay is how long every answer takes, in nanoseconds.
	delay atomic.Int64
	// stall keeps places without an answer, as a broker that hangs.
	stall   atomic.Bool
	stalled atomic.Int64
	lookups atomic.Int64
}

func startStub() (*stub, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start stub broker: %w", err)
	}
	b := &stub{listener: listener}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders", b.place)
	mux.HandleFunc("GET /v1/orders/by-client-order-id/{key}", b.lookup)
	b.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

func (b *stub) url() string { return "http://" + b.listener.Addr().String() }
func (b *stub) close()      { _ = b.server.Close() }

func (b *stub) place(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if b.stall.Load() {
		b.stalled.Add(1)
		<-r.Context().Done()
		return
	}
	b.answer(w, r.Header.Get("Idempotency-Key"), http.StatusCreated)
}

func (b *stub) lookup(w http.ResponseWriter, r *http.Request) {
	b.lookups.Add(1)
	b.answer(w, r.PathValue("key"), http.StatusOK)
}

func (b *stub) answer(w http.ResponseWriter, key string, status int) {
	if delay := b.delay.Load(); delay > 0 {
		time.Sleep(time.Duration(delay))
	}
	if strings.ContainsAny(key, `"\`) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"order_id":"o-%s","client_order_id":"%s","status":"completed"}`, key, key)
}
