package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"holdfast/auth"
)

const (
	// consoleSlots is how many requests of the console are handled at once. Operators are
	// few; what they wait for must leave the database to purchases.
	consoleSlots = 8
	// receivingFactor: requests whose body is still on its way have no slot yet; a client
	// key may have this many times as many of them as it may have in flight.
	receivingFactor = 4
)

// perKey counts what each client key has in progress.
type perKey struct {
	max int
	mu  sync.Mutex
	n   map[string]int
}

func newPerKey(most int) *perKey { return &perKey{max: most, n: map[string]int{}} }

// enter reports whether p may have one more. Operators are not limited.
func (k *perKey) enter(p auth.Principal) bool {
	if p.Operator() {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n[p.KeyID] >= k.max {
		return false
	}
	k.n[p.KeyID]++
	return true
}

func (k *perKey) leave(p auth.Principal) {
	if p.Operator() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n[p.KeyID]--; k.n[p.KeyID] == 0 {
		delete(k.n, p.KeyID)
	}
}

// place is what one request holds: its slot among all requests, and its key's.
type place struct{ slot, key func() }

type placeKey struct{}

// releaseSlot gives the request's slot up early: a request that only waits for a purchase
// must not keep others out. It still counts for its key.
func releaseSlot(ctx context.Context) {
	if p, ok := ctx.Value(placeKey{}).(place); ok {
		p.slot()
	}
}

// releasePlace gives up everything: a stream has limits of its own.
func releasePlace(ctx context.Context) {
	if p, ok := ctx.Value(placeKey{}).(place); ok {
		p.slot()
		p.key()
	}
}

// bound refuses what exceeds the limits of the key, or of all keys together. Both count a
// request only once it has been received: a body that does not come holds nothing.
func (a *api) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := auth.From(r.Context())
		if !a.received(r, who) {
			refuse(w, r, tooManyOfKey())
			return
		}
		if !a.inFlight.enter(who) {
			refuse(w, r, tooManyOfKey())
			return
		}
		p := place{key: sync.OnceFunc(func() { a.inFlight.leave(who) })}
		defer p.key()
		a.handleInSlot(w, r, next, a.slots, p)
	})
}

// boundConsole is the same for the console, whose requests have no key.
func (a *api) boundConsole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := receive(r); err != nil {
			refuse(w, r, bodyProblem(err))
			return
		}
		a.handleInSlot(w, r, next, a.consoleSlots, place{})
	})
}

func (a *api) handleInSlot(w http.ResponseWriter, r *http.Request, next http.Handler, slots chan struct{}, p place) {
	select {
	case slots <- struct{}{}:
	default:
		refuse(w, r, &problem{slug: unavailable, detail: "too many requests at once", retryAfter: time.Second})
		return
	}
	p.slot = sync.OnceFunc(func() { <-slots })
	defer p.slot()
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)))
}

func tooManyOfKey() error {
	return &problem{slug: rateLimited, detail: "this API key has too many requests in progress", retryAfter: time.Second}
}

// received reads the body, and reports whether the key may have one more on its way.
func (a *api) received(r *http.Request, who auth.Principal) bool {
	if r.Body == nil || r.Body == http.NoBody {
		return true
	}
	if !a.receiving.enter(who) {
		return false
	}
	defer a.receiving.leave(who)
	_ = receive(r) // whoever reads the body gets the error
	return true
}

// receive replaces the body of a request that may have one by what has been read of it.
// The server sets the deadline. An error is returned, and reported to whoever reads it.
func receive(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if len(raw) > maxBody {
		// A client that is still sending when its connection closes may not see why.
		_, _ = io.CopyN(io.Discard, r.Body, maxPassedOver)
		raw, err = nil, errBodyTooLarge
	}
	r.Body = &receivedBody{bytes.NewReader(raw), r.Body, err}
	return err
}

var errBodyTooLarge = errors.New("request body is too large")

// receivedBody is a body in memory; err follows its last byte.
type receivedBody struct {
	*bytes.Reader
	io.Closer
	err error
}

func (b *receivedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && b.err != nil {
		err = b.err
	}
	return n, err
}
