package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The server's own limits. It has neither a ReadTimeout nor a WriteTimeout: both would
// end streams and waits, so each request has deadlines of its own (exchange.go).
const (
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is above a usual load balancer's minute, so that it is not we who
	// close a connection just as the next request comes in.
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 32 << 10
	// closeTimeout is how long a shutdown leaves to connections without a request that it
	// waits for: their last answers leave, and half a request is not waited for.
	closeTimeout = time.Second
)

// Server is an HTTP server with every limit explicit.
type Server struct {
	http     *http.Server
	requests requests
	conns    *connections
}

// New returns a server for handler.
func New(handler http.Handler, log *slog.Logger) *Server {
	s := &Server{requests: newRequests(), conns: newConnections(maxConnections())}
	s.http = &http.Server{
		Handler:           s.requests.bound(handler),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         s.conns.observe,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve accepts connections on listener until [Server.Shutdown]; then it returns nil.
func (s *Server) Serve(listener net.Listener) error {
	err := s.http.Serve(s.conns.limit(listener))
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Shutdown waits for the requests in progress, and then closes. Meanwhile new requests
// are still answered, so that load balancers see that this process is not ready. It fails
// only if ctx ends while requests that came before it are in progress; those are cut off.
// A client cannot delay it: a body still missing has a second more, and no write goes on
// until ctx ends. Streams do not end on their own: the caller ends them first.
func (s *Server) Shutdown(ctx context.Context) error {
	unfinished := s.requests.drain(ctx)
	closing, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if s.http.Shutdown(closing) != nil {
		_ = s.http.Close() // connections only: no request is left that anyone waits for
	}
	if unfinished > 0 {
		return fmt.Errorf("shut down: %d requests were still in progress: %w", unfinished, ctx.Err())
	}
	return nil
}
