package httpserver

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// writeMargin before a shutdown's end every write must be over, so that a client that
// does not read makes no shutdown fail.
const writeMargin = 200 * time.Millisecond

// requests knows the requests that a shutdown waits for: those that came before it.
type requests struct {
	mu      sync.Mutex
	open    map[*exchange]struct{}
	ended   chan struct{}
	closing atomic.Bool
	// until is when a shutdown ends, in Unix nanoseconds; zero before there is one.
	until *atomic.Int64
}

func newRequests() requests {
	return requests{open: map[*exchange]struct{}{}, ended: make(chan struct{}), until: new(atomic.Int64)}
}

// Bound returns handler with the deadlines that a [Server] gives each request, for a
// server of a test's own.
func Bound(handler http.Handler) http.Handler {
	rs := newRequests()
	return rs.bound(handler)
}

// bound gives each request its deadlines.
func (rs *requests) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := newExchange(rs, w, r)
		if rs.enter(x) {
			defer rs.leave(x)
		}
		defer x.finish()
		next.ServeHTTP(x, r)
	})
}

func (rs *requests) bodyDeadline() time.Time {
	if rs.closing.Load() {
		return time.Now().Add(lingerTimeout)
	}
	return time.Now().Add(bodyTimeout)
}

func (rs *requests) writeDeadline() time.Time {
	deadline := time.Now().Add(writeTimeout)
	if until := rs.until.Load(); until != 0 {
		if end := time.Unix(0, until).Add(-writeMargin); end.Before(deadline) {
			return end
		}
	}
	return deadline
}

func (rs *requests) enter(x *exchange) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closing.Load() {
		return false
	}
	rs.open[x] = struct{}{}
	return true
}

func (rs *requests) leave(x *exchange) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.open, x)
	if rs.closing.Load() && len(rs.open) == 0 {
		close(rs.ended)
	}
}

// drain waits until the requests have ended or ctx has, and returns how many are left.
func (rs *requests) drain(ctx context.Context) int {
	if rs.hurry(ctx) {
		select {
		case <-rs.ended:
		case <-ctx.Done():
		}
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.open)
}

// hurry begins the shutdown and reports whether there is something to wait for.
func (rs *requests) hurry(ctx context.Context) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.closing.Swap(true) || len(rs.open) == 0 {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok {
		rs.until.Store(deadline.UnixNano())
	}
	for x := range rs.open {
		x.hurry()
	}
	return true
}
