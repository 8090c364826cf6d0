package httpserver_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/internal/httpserver"
)

// pipes is a listener whose connections are pipes, so that time is the bubble's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

type world struct {
	t      *testing.T
	server *httpserver.Server
	pipes  *pipes
	served chan error
}

// setup serves handler; the test shuts the server down.
func setup(t *testing.T, handler http.HandlerFunc) *world {
	t.Helper()
	w := &world{
		t: t, server: httpserver.New(handler, slog.New(slog.DiscardHandler)), served: make(chan error, 1),
		pipes: &pipes{conns: make(chan net.Conn), done: make(chan struct{})},
	}
	go func() { w.served <- w.server.Serve(w.pipes) }()
	return w
}

func (w *world) shutdown(within time.Duration) (took time.Duration, err error) {
	w.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	err = w.server.Shutdown(ctx)
	took = time.Since(began)
	if err := <-w.served; err != nil {
		w.t.Errorf("Serve: %v", err)
	}
	return took, err
}

// send opens a connection and writes to it as far as the server reads.
func (w *world) send(text string) net.Conn {
	w.t.Helper()
	client, server := net.Pipe()
	w.pipes.conns <- server
	go func() { _, _ = client.Write([]byte(text)) }()
	return client
}

// answered returns the status, and how long it took until there was one and until the
// connection was closed.
func answered(conn net.Conn) (status int, first, closed time.Duration) {
	began := time.Now()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		status, first = response.StatusCode, time.Since(began)
		_, _ = io.Copy(io.Discard, response.Body)
	}
	_, _ = io.Copy(io.Discard, conn)
	return status, first, time.Since(began)
}

const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"

func refusing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }

func reading(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func TestABodyThatDoesNotComeHoldsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		sent    string
		status  int
		first   time.Duration
		closed  time.Duration
	}{
		"Read":             {reading, post, 400, 10 * time.Second, 12 * time.Second},
		"Refused":          {refusing, post, 401, 0, 3 * time.Second},
		"RefusedChunked":   {refusing, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 401, 0, 3 * time.Second},
		"GetWithBody":      {refusing, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", 401, 0, 3 * time.Second},
		"ExpectedContinue": {refusing, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", 401, 0, 3 * time.Second},
		"HalfAHeader":      {refusing, "GET / HTTP/1.1\r\nHost: x\r\nX-", 400, 10 * time.Second, 11 * time.Second},
		"Silent":           {refusing, "", 0, 0, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := setup(t, c.handler)
				conn := w.send(c.sent)
				status, first, closed := answered(conn)
				if status != c.status || first > c.first || closed > c.closed {
					t.Errorf("status %d after %v, closed after %v; want %d, at most %v and %v", status, first, closed, c.status, c.first, c.closed)
				}
				if _, err := w.shutdown(time.Minute); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Once a body has been read its deadline must not end the request.
func TestAWaitOutlastsTheBodysDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
			select {
			case <-r.Context().Done():
				w.WriteHeader(http.StatusTeapot)
			case <-time.After(time.Minute):
			}
		})
		conn := w.send("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
		if status, first, _ := answered(conn); status != 200 || first != time.Minute {
			t.Errorf("status %d after %v", status, first)
		}
		if _, err := w.shutdown(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestAClientThatDoesNotReadHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		held := make(chan time.Duration, 1)
		w := setup(t, func(w http.ResponseWriter, _ *http.Request) {
			began := time.Now()
			_, err := w.Write(make([]byte, 1<<20))
			for err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			held <- time.Since(began)
		})
		conn := w.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if d := <-held; d > 31*time.Second {
			t.Errorf("held for %v", d)
		}
		conn.Close()
		if _, err := w.shutdown(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// A shutdown waits for requests in progress, and not for clients.
func TestShutdown(t *testing.T) {
	t.Parallel()
	slow := func(d time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				<-time.After(d)
			}
		}
	}
	flood := func(w http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<16))
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		sent    string
		within  time.Duration
		fails   bool
	}{
		"Idle":             {refusing, "", 2 * time.Second, false},
		"HalfAHeader":      {refusing, "GET / HTT", 2 * time.Second, false},
		"HalfABody":        {reading, post, 4 * time.Second, false},
		"RefusedHalfABody": {refusing, post, 4 * time.Second, false},
		"InProgress":       {slow(5 * time.Second), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 7 * time.Second, false},
		"UnreadResponse":   {flood, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 8 * time.Second, false},
		"TooLong":          {slow(time.Minute), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 9 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := setup(t, c.handler)
				conn := w.send(c.sent)
				synctest.Wait()
				if name == "InProgress" {
					go answered(conn)
				}
				took, err := w.shutdown(8 * time.Second)
				if took > c.within || (err != nil) != c.fails || (c.fails && !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("took %v, %v", took, err)
				}
				conn.Close()
				<-time.After(time.Minute) // the handler that was cut off ends, too
			})
		})
	}
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, refusing)
		conn := w.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
		if status, _, _ := answered(conn); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", status)
		}
		if _, err := w.shutdown(time.Minute); err != nil {
			t.Error(err)
		}
	})
}
