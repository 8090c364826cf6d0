package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// subscriber is one open stream of events.
type subscriber struct {
	conn  net.Conn
	lines *bufio.Scanner
}

// subscribe opens a stream and returns once its answer has begun.
func subscribe(ctx context.Context, addr, path, key string) (*subscriber, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(answerPatience))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n\r\n", path, key)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		_ = conn.Close()
		return nil, fmt.Errorf("subscribe: answer %d: %s", answer.StatusCode, text)
	}
	_ = conn.SetDeadline(time.Time{})
	lines := bufio.NewScanner(answer.Body)
	return &subscriber{conn: conn, lines: lines}, nil
}

// next waits for an event and returns its data; false is the stream's end.
func (s *subscriber) next() ([]byte, bool) {
	for s.lines.Scan() {
		if data, ok := bytes.CutPrefix(s.lines.Bytes(), []byte("data: ")); ok {
			return data, true
		}
	}
	return nil, false
}

func (s *subscriber) close() { _ = s.conn.Close() }

// drain keeps a stream open that nobody looks at, until the figure ends.
func (l *env) drain(to *server, key string) error {
	s, err := subscribe(l.ctx, to.addr, "/v1/events", key)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, more := s.next(); more; _, more = s.next() {
			continue
		}
	}()
	l.onEnd(func() error { s.close(); <-done; return nil })
	return nil
}

// arrivals notes when each purchase's event came.
type arrivals struct {
	mu sync.Mutex
	at map[string]time.Time
}

var idField = []byte(`"purchase_id":"`)

// follow opens a stream that notes its arrivals, until the figure ends.
func (l *env) follow(to *server) (*arrivals, error) {
	s, err := subscribe(l.ctx, to.addr, "/v1/events", operatorKey)
	if err != nil {
		return nil, err
	}
	a, done := &arrivals{at: map[string]time.Time{}}, make(chan struct{})
	go func() {
		defer close(done)
		for data, more := s.next(); more; data, more = s.next() {
			a.note(data, time.Now())
		}
	}()
	l.onEnd(func() error { s.close(); <-done; return nil })
	return a, nil
}

func (a *arrivals) note(data []byte, now time.Time) {
	_, rest, found := bytes.Cut(data, idField)
	if !found || len(rest) < 36 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[string(rest[:36])] = now
}

// take returns what arrived since the last call.
func (a *arrivals) take() map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.at
	a.at = map[string]time.Time{}
	return taken
}
