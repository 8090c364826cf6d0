package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"holdfast/internal/httpserver"
)

// Config sets a sandbox up.
type Config struct {
	// Ledger is the file that keeps the orders; empty keeps them in memory only. What
	// was booked survives the death of the process.
	Ledger string
	// Token, where set, is the bearer token that every request must carry.
	Token string
	// Log may be nil.
	Log *slog.Logger
}

// Sandbox is a broker. It is safe for concurrent use.
type Sandbox struct {
	token string
	log   *slog.Logger
	done  chan struct{}
	close sync.Once
	file  *ledger

	mu      sync.Mutex
	records map[string]*record
	script  []Response
	mode    Mode
	places  int
	lookups int
}

// New reads the ledger, if there is one.
func New(config Config) (*Sandbox, error) {
	file, records, err := openLedger(config.Ledger)
	if err != nil {
		return nil, err
	}
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Sandbox{token: config.Token, log: log, done: make(chan struct{}), file: file, records: records}, nil
}

// Close ends every stalled answer and closes the ledger. Calls that come later are
// dropped unanswered.
func (s *Sandbox) Close() error {
	var err error
	s.close.Do(func() {
		close(s.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		err = s.file.close()
	})
	return err
}

// closeGrace is how long Serve waits for answers in progress; the stalled ones end at once.
const closeGrace = 2 * time.Second

// Serve answers on listener until ctx ends, then closes the sandbox.
func (s *Sandbox) Serve(ctx context.Context, listener net.Listener) error {
	server := httpserver.New(s.Handler(), s.log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	closeError := s.Close()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	_ = server.Shutdown(closing) // a stalled answer is cut off: that is what it was for
	return errors.Join(err, closeError)
}

// Handler is the broker's wire and its control API.
func (s *Sandbox) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/orders", s.place)
	mux.HandleFunc("GET /v1/orders/by-client-order-id/{key}", s.lookup)
	mux.HandleFunc("GET /v1/orders", s.list)
	mux.HandleFunc("GET /control/ledger", s.getLedger)
	mux.HandleFunc("DELETE /control/ledger", s.forgetLedger)
	mux.HandleFunc("GET /control/script", s.getScript)
	mux.HandleFunc("POST /control/script", s.addScript)
	mux.HandleFunc("DELETE /control/script", s.clearScript)
	mux.HandleFunc("GET /control/mode", s.getMode)
	mux.HandleFunc("PUT /control/mode", s.putMode)
	// A web page that is open on this machine must not control the broker.
	return http.NewCrossOriginProtection().Handler(s.authorized(mux))
}

func (s *Sandbox) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
			refuse(w, http.StatusUnauthorized, "unauthorized", "the bearer token is missing or wrong")
			return
		}
		next.ServeHTTP(w, r)
	})
}
