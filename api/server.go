package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The server's own limits. It has neither a ReadTimeout nor a WriteTimeout: both would
// end streams, so each request sets its own deadlines.
const (
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is above a usual load balancer's minute, so that it is not we who
	// close a connection just as the next request comes in.
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 32 << 10
)

// Server is an HTTP server with every limit said.
type Server struct {
	http *http.Server
	work underway
}

// NewServer returns a server for handler.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	s := &Server{work: underway{ended: make(chan struct{})}}
	s.http = &http.Server{
		Handler:           s.work.count(handler),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers on listener until [Server.Shutdown]; then it returns nil.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.http.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Shutdown waits for what is being answered, and then closes. While it waits, who comes
// still gets an answer: that this process is not ready, and that purchases go elsewhere.
// Whatever is left when ctx ends is closed. Streams never end by themselves: they must have been
// told first, by [Params].ShuttingDown and their own signal.
func (s *Server) Shutdown(ctx context.Context) error {
	s.work.await(ctx)
	err := s.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("shut down: %w", err), s.http.Close())
}

// underway counts the requests that a shutdown waits for: those that came before it.
type underway struct {
	mu      sync.Mutex
	n       int
	closing bool
	ended   chan struct{}
}

func (u *underway) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u.enter() {
			defer u.leave()
		}
		next.ServeHTTP(w, r)
	})
}

func (u *underway) enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closing {
		u.n++
	}
	return !u.closing
}

func (u *underway) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	if u.closing && u.n == 0 {
		close(u.ended)
	}
}

func (u *underway) await(ctx context.Context) {
	u.mu.Lock()
	waits := !u.closing && u.n > 0
	u.closing = true
	u.mu.Unlock()
	if !waits {
		return
	}
	select {
	case <-u.ended:
	case <-ctx.Done():
	}
}
