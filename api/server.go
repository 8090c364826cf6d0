package api

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
}

// NewServer returns a server for handler.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	return &Server{http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
}

// Serve answers on listener until [Server.Shutdown]; then it returns nil.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.http.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Shutdown takes no more connections, waits for what is being answered, and closes
// whatever is left when ctx ends. Streams never end by themselves: they must have been
// told first, by [Params].ShuttingDown and their own signal.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("shut down: %w", err), s.http.Close())
}
