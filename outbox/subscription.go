package outbox

import "sync"

// takeMax is how many events one Take returns: some 100 kB on the wire.
const takeMax = 256

// Subscription is one subscriber's cursor in the hub's ring. Nothing waits in it: one that
// is slow costs nothing, and one that falls behind the ring is referred to the log.
type Subscription struct {
	hub    *Hub
	filter Filter
	wake   func(*Subscription)
	// slot is the place in its group, -1 once it has left; the hub's lock guards it.
	slot int

	mu sync.Mutex
	// after is the cursor: everything up to it was taken.
	after int64
	// first is the first event to take; zero if there is none.
	first  int64
	nudged bool
	awake  bool
	err    error
}

// Subscribe joins the events that f chooses after a cursor, exactly: it returns nil if
// that would leave out events that only the log still has. Then read the log up to
// [Hub.Position] and try again with the cursor there. [Hub.Ready] must be closed.
//
// wake is called when there is something to take, then not again before a Take has found
// nothing. It must not block, nor call the subscription before it has returned.
func (h *Hub) Subscribe(f Filter, after int64, wake func(*Subscription)) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after < h.recent.floor {
		return nil
	}
	s := &Subscription{hub: h, filter: f, wake: wake, after: after, first: h.encodeFrom(f, after+1)}
	h.members.add(s)
	if s.first != 0 {
		s.onNotify()
	}
	return s
}

// encodeFrom encodes what f chooses, for events that came while nobody received them, and
// returns the number of the first.
func (h *Hub) encodeFrom(f Filter, from int64) (first int64) {
	for i := h.recent.from(from); i < len(h.recent.ring); i++ {
		m := h.recent.at(i)
		if !f.Match(&m.Event) {
			continue
		}
		h.ensureEncoded(m)
		if first == 0 {
			first = m.ID
		}
	}
	return first
}

// push says that the ring has a new event for the subscriber. Its cursor may be ahead of
// this hub, for another process may have been quicker: what it covers is skipped.
func (s *Subscription) push(m *Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || m.ID <= s.after {
		return
	}
	if s.first == 0 {
		s.first = m.ID
	}
	s.onNotify()
}

// fail ends the subscription; the caller holds mu.
func (s *Subscription) fail(err error) {
	s.err, s.first = err, 0
	s.onNotify()
}

func (s *Subscription) onNotify() {
	if !s.awake {
		s.awake = true
		s.wake(s)
	}
}

// Take returns the next events, at most 256, and whether there was a nudge. An error says
// why the subscription has ended; nothing follows it. After [ErrBehind] the log has what
// comes after [Subscription.After].
func (s *Subscription) Take() (messages []*Message, nudged bool, err error) {
	s.hub.mu.RLock()
	defer s.hub.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != 0 {
		messages = s.advance()
	}
	nudged, s.nudged = s.nudged, false
	s.awake = len(messages) > 0 || nudged || s.err != nil
	return messages, nudged, s.err
}

// advance moves the cursor; the caller holds both locks.
func (s *Subscription) advance() []*Message {
	recent := &s.hub.recent
	if s.first <= recent.floor {
		s.after, s.first, s.err = s.first-1, 0, ErrBehind
		return nil
	}
	messages, rest := recent.chosen(s.filter, s.first, takeMax)
	if len(messages) > 0 {
		s.after = messages[len(messages)-1].ID
	}
	s.first = rest
	return messages
}

// After returns the cursor: the last event that was taken, or a later one before which
// nothing is left to take.
func (s *Subscription) After() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.after
}

// WakeIdle wakes the subscriber without an event.
func (s *Subscription) WakeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nudged = true
	s.onNotify()
}

// Close ends the subscription; its next Take returns err, or [ErrClosed] for nil. It may
// be closed again: the first reason stays.
func (s *Subscription) Close(err error) {
	if err == nil {
		err = ErrClosed
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.end(s, err)
}

// end removes a subscription; the caller holds the hub's lock.
func (h *Hub) end(s *Subscription, err error) {
	s.mu.Lock()
	if s.err == nil {
		s.fail(err)
	}
	s.mu.Unlock()
	h.members.remove(s)
}
