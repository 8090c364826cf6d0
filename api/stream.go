package api

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"holdfast/account"
	"holdfast/auth"
	"holdfast/internal/httpserver"
	"holdfast/outbox"
	"holdfast/purchase"
)

const (
	// streamsMax and keyStreamsMax are how many streams one process, and one client key in
	// it, may have by default.
	streamsMax    = 20_000
	keyStreamsMax = 1_000
	// replaysMax is how many streams read the log at once: a storm of clients that come
	// back must leave the pool to the relay and the hub.
	replaysMax = 2
	// refusedSpread: those who found no place come back over so long, not all at once.
	refusedSpread = 10 * time.Second
)

// StreamParams is what the streams work with.
type StreamParams struct {
	Hub    *outbox.Hub
	Events *outbox.Log
	// Keys tells whose keys are still good; *auth.Store does.
	Keys interface {
		ActivePrincipals(ctx context.Context, all []auth.Principal) (map[auth.Principal]bool, error)
	}
	// Accounts reports whether there is an account; *account.Store does.
	Accounts interface {
		Currency(ctx context.Context, id string) (string, error)
	}
	// Purchases tells whose a purchase is; *purchase.Service does.
	Purchases interface {
		Get(ctx context.Context, id uuid.UUID) (purchase.Purchase, error)
	}
	// Max is how many streams there may be at once; 0 means 20,000, or half of the files
	// that the process may have open.
	Max int
	// KeyMax is how many of them one client key may have; 0 means 1,000.
	KeyMax int
	Log    *slog.Logger
}

// Streams is the handler of GET /v1/events. It expects the authentication before it.
type Streams struct {
	p       StreamParams
	replays chan struct{}
	// ctx ends with Close: streams outlive the requests that opened them.
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	open    map[*stream]struct{}
	entered int
	byKey   *perKey
	closed  bool
	keeping bool
}

// NewStream returns the handler. [Streams.Close] ends all streams at a shutdown, before
// the server's own.
func NewStream(p StreamParams) *Streams {
	if p.Max <= 0 {
		p.Max = min(streamsMax, httpserver.MaxStreams())
	}
	if p.KeyMax <= 0 {
		p.KeyMax = keyStreamsMax
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	s := &Streams{p: p, replays: make(chan struct{}, replaysMax), open: map[*stream]struct{}{}, byKey: newPerKey(p.KeyMax)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// ServeHTTP opens a stream. Over HTTP/1 it returns at once and the stream lives on in
// the connection that it took over; over HTTP/2 it returns when the stream ends.
func (s *Streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st, begin, err := s.admit(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	releasePlace(r.Context())
	s.begin(st, begin, w, r)
}

// admit finds out what a stream is to show and where it is to begin, and takes a place.
func (s *Streams) admit(r *http.Request) (*stream, start, error) {
	asked, err := want(r)
	if err != nil {
		return nil, start{}, err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	who := auth.From(ctx)
	filter, err := s.filter(ctx, who, asked)
	if err != nil {
		return nil, start{}, err
	}
	if err := s.enter(who); err != nil {
		return nil, start{}, err
	}
	st := &stream{streams: s, principal: who, filter: filter}
	begin, err := s.resume(ctx, asked.last)
	if err != nil {
		s.leave(st)
		return nil, start{}, err
	}
	return st, begin, nil
}

// begin takes the connection over where it can be had.
func (s *Streams) begin(st *stream, begin start, w http.ResponseWriter, r *http.Request) {
	setStreamHeaders(w.Header(), begin)
	conn, err := hijack(w)
	if err != nil {
		direct := newDirect(w)
		st.out = direct
		s.add(st)
		direct.serve(r.Context(), st, begin)
		return
	}
	st.out = conn
	s.add(st)
	go conn.watch(st)
	go conn.serve(st, begin, w.Header())
}

// positionHeader tells after which event a stream begins. A client that reads it can
// resume even if the connection breaks before the first event.
const positionHeader = "Holdfast-Stream-Position"

// setStreamHeaders says no, too, to everything on the way that would keep or gather events.
func setStreamHeaders(h http.Header, begin start) {
	h.Set(positionHeader, strconv.FormatInt(begin.after, 10))
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// wanted is what a request asks for.
type wanted struct{ account, purchase, last string }

// want reads it. What cannot be read is refused: a filter must not silently be none.
func want(r *http.Request) (wanted, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wanted{}, invalid(fieldError{"query", "is not well formed"})
	}
	q := &queryReader{values: values}
	delete(values, "_") // what some clients add against caches
	q.takes("account_id", "purchase_id", "last_event_id", "lastEventId", "ticket")
	w := wanted{account: q.one("account_id"), purchase: q.one("purchase_id"), last: cmp.Or(q.one("last_event_id"), q.one("lastEventId"))}
	if len(q.faults) > 0 {
		return wanted{}, invalid(q.faults...)
	}
	// The header wins: a browser that reconnects keeps the address with the older id in it.
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		w.last = id
	}
	return w, nil
}

// filter narrows what is wanted to what the key may see. What it may not see is not there.
func (s *Streams) filter(ctx context.Context, who auth.Principal, w wanted) (outbox.Filter, error) {
	f := outbox.Filter{AccountID: w.account}
	if !who.Operator() {
		if who.AccountID == "" {
			return f, because(forbidden, "this API key has no account")
		}
		if f.AccountID != "" && f.AccountID != who.AccountID {
			return f, account.ErrNotFound
		}
		f.AccountID = who.AccountID
	}
	if err := s.knowAccount(ctx, f.AccountID); err != nil {
		return f, err
	}
	if w.purchase != "" {
		return s.filterPurchase(ctx, f, w.purchase)
	}
	return f, nil
}

func (s *Streams) knowAccount(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	if !account.ValidID(id) {
		return account.ErrNotFound
	}
	_, err := s.p.Accounts.Currency(ctx, id)
	return err
}

func (s *Streams) filterPurchase(ctx context.Context, f outbox.Filter, text string) (outbox.Filter, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return f, purchase.ErrNotFound
	}
	p, err := s.p.Purchases.Get(ctx, id)
	if err != nil {
		return f, err
	}
	if f.AccountID != "" && f.AccountID != p.AccountID {
		return f, purchase.ErrNotFound
	}
	f.PurchaseID = id
	return f, nil
}

// enter takes one of the places.
func (s *Streams) enter(who auth.Principal) error {
	select {
	case <-s.p.Hub.Ready():
	default:
		return noPlace("events are not ready yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return noPlace("shutting down")
	}
	if s.entered >= s.p.Max {
		return noPlace(fmt.Sprintf("all %d streams of this process are taken", s.p.Max))
	}
	if !s.byKey.enter(who) {
		return &problem{slug: rateLimited, detail: fmt.Sprintf("this API key has all of its %d streams open", s.p.KeyMax), retryAfter: refusedSpread}
	}
	s.entered++
	return nil
}

// Open is how many streams there are. One counts from when it is let in: it may be catching
// up for long before it is live.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entered
}

func noPlace(detail string) error {
	return &problem{slug: unavailable, detail: detail, retryAfter: time.Second + rand.N(refusedSpread)}
}

// add makes a stream known to the keeper; leave gives its place back.
func (s *Streams) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[st] = struct{}{}
	if s.closed {
		go st.end()
		return
	}
	if !s.keeping {
		s.keeping = true
		go s.keep()
	}
}

func (s *Streams) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entered--
	s.byKey.leave(st.principal)
	delete(s.open, st)
}

// Close ends all streams and refuses new ones. Clients come back elsewhere and resume.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	for _, st := range s.all() {
		st.end()
	}
}

func (s *Streams) all() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*stream, 0, len(s.open))
	for st := range s.open {
		all = append(all, st)
	}
	return all
}
