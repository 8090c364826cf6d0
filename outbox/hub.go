package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// recentMax is how many events the ring holds, some 3 MB: a burst of thousands reaches
	// streams that read without a query, and everyone who was cut off for a moment resumes
	// without one, all ten thousand at once.
	recentMax = 4096
	// pageMax is how many events the hub reads at once.
	pageMax = 500
)

// Why a subscription has ended.
var (
	// ErrBehind: the next events have left the ring; the log has them.
	ErrBehind = errors.New("subscriber has fallen behind the ring")
	// ErrReset: the log went back behind what was delivered, as after the restore of a
	// backup under a running process.
	ErrReset = errors.New("event log was reset")
	// ErrClosed: the subscriber closed it.
	ErrClosed = errors.New("subscription is closed")
)

// HubConfig of a [Hub].
type HubConfig struct {
	Pool *pgxpool.Pool
	// Encode gives the bytes of an event that its receivers share; it is called once an
	// event, and not at all where nobody receives it.
	Encode func(Event) []byte
	Poll   time.Duration
	Log    *slog.Logger
}

// Hub delivers a process's events. It alone reads the log's end; a subscriber costs it
// no query, and an event costs it its receivers only.
type Hub struct {
	log     *Log
	encode  func(Event) []byte
	poll    time.Duration
	logger  *slog.Logger
	trouble trouble
	poke    poke
	ready   chan struct{}
	lag     atomic.Int64

	mu       sync.RWMutex
	position int64 // the last event delivered
	recent   recent
	members  members
}

// NewHub returns a hub that [Hub.Run] sets to work.
func NewHub(c HubConfig) *Hub {
	h := &Hub{
		log: NewLog(c.Pool), encode: c.Encode, poll: c.Poll, logger: orDiscard(c.Log), poke: newPoke(),
		ready:   make(chan struct{}),
		members: members{byAccount: map[string]*group{}, byPurchase: map[uuid.UUID]*group{}},
	}
	h.trouble = trouble{log: h.logger, what: "reading events"}
	if h.poll <= 0 {
		h.poll = defaultPoll
	}
	return h
}

// Wake says that the log may have grown. It never blocks.
func (h *Hub) Wake() { h.poke.give() }

// Ready is closed once the hub knows where the log ends; before, nobody can subscribe.
func (h *Hub) Ready() <-chan struct{} { return h.ready }

// Position is the last event that was delivered.
func (h *Hub) Position() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.position
}

// Subscribers is how many there are.
func (h *Hub) Subscribers() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.members.count
}

// Lag is the time from an event's number to its delivery here, or for how long the log
// could not be read.
func (h *Hub) Lag() time.Duration {
	return max(time.Duration(h.lag.Load()), h.trouble.lasts())
}

// Run delivers until ctx ends, and returns nil then. A database that is away is waited
// for; subscriptions outlive it.
func (h *Hub) Run(ctx context.Context) error {
	for !h.begin(ctx) {
		if !sleep(ctx, h.poll) {
			return nil
		}
	}
	checked := time.Now()
	for h.poke.wait(ctx, h.poll) {
		err := h.catchUp(ctx)
		if err == nil && time.Since(checked) >= h.poll {
			checked = time.Now()
			err = h.checkBounds(ctx)
		}
		h.trouble.note(ctx, err)
		if err != nil && !sleep(ctx, h.poll) {
			return nil
		}
	}
	return nil
}

// begin starts a little before the log's end, so that recent is filled from the first
// moment: after a restart all streams resume at once.
func (h *Hub) begin(ctx context.Context) bool {
	bounds, err := h.log.Bounds(ctx)
	if err == nil {
		h.restart(max(bounds.Dropped, bounds.Last-recentMax))
		err = h.catchUp(ctx)
	}
	h.trouble.note(ctx, err)
	if err != nil {
		return false
	}
	close(h.ready)
	return true
}

func (h *Hub) restart(position int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.position = position
	h.recent = recent{floor: position}
}

// catchUp reads the log to its end.
func (h *Hub) catchUp(ctx context.Context) error {
	for {
		page, err := h.log.Read(ctx, Filter{}, h.Position(), maxID, pageMax)
		if err != nil {
			return err
		}
		h.deliver(page)
		if len(page) < pageMax {
			return nil
		}
	}
}

// checkBounds forgets what retention has taken away, so that all processes give the same
// answer to an old cursor. It ends all subscriptions where the log does not reach what has
// been delivered, or begins beyond it; their clients come back and are told to start afresh.
func (h *Hub) checkBounds(ctx context.Context) error {
	delivered := h.Position()
	bounds, err := h.log.Bounds(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if bounds.Last >= delivered && bounds.Dropped <= h.position {
		h.recent.floor = max(h.recent.floor, bounds.Dropped)
		return nil
	}
	h.logger.ErrorContext(ctx, "event log was reset: ending all streams",
		"delivered", delivered, "dropped", bounds.Dropped, "last", bounds.Last)
	h.position, h.recent = bounds.Last, recent{floor: bounds.Last}
	for _, s := range h.members.all() {
		h.end(s, ErrReset)
	}
	return nil
}

// Feed delivers what this process's relay has just committed, where it follows upon what
// was delivered last: numbers have no gap, so then it is the log's very next piece.
// Otherwise the log is read.
func (h *Hub) Feed(fresh []Event) {
	h.mu.Lock()
	fits := len(fresh) > 0 && h.started() && fresh[0].ID == h.position+1 &&
		fresh[len(fresh)-1].ID == h.position+int64(len(fresh))
	if fits {
		h.deliverLocked(fresh)
	}
	h.mu.Unlock()
	if !fits {
		h.Wake()
	}
}

func (h *Hub) started() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

func (h *Hub) deliver(page []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliverLocked(page)
}

// deliverLocked hands events on in order; what was delivered before is passed over.
func (h *Hub) deliverLocked(page []Event) {
	var lag time.Duration
	for i := range page {
		if page[i].ID <= h.position {
			continue
		}
		m := &Message{Event: page[i]}
		h.position = m.ID
		h.recent.add(m)
		h.members.receivers(&m.Event, func(s *Subscription) { h.hand(s, m) })
		lag = max(lag, time.Since(m.LoggedAt))
	}
	h.lag.Store(int64(lag))
}

// hand announces a message to a subscriber.
func (h *Hub) hand(s *Subscription, m *Message) {
	h.ensureEncoded(m)
	s.push(m)
}

// ensureEncoded encodes a message once for all of its receivers; the caller holds the lock.
func (h *Hub) ensureEncoded(m *Message) {
	if m.Wire == nil {
		m.Wire = h.encode(m.Event)
	}
}
