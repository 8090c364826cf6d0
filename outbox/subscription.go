package outbox

import "sync"

// Subscription is one subscriber's place in the hub. Its events wait in it, at most 256
// of them, until they are taken; a subscriber that leaves more waiting is ended, never
// skipped.
type Subscription struct {
	hub    *Hub
	filter Filter
	wake   func(*Subscription)
	// slot is the place in its group, -1 where it has left; the hub's lock guards it.
	slot int

	mu      sync.Mutex
	after   int64
	waiting []*Message
	nudged  bool
	awake   bool
	err     error
}

// Subscribe joins the events that f chooses after a cursor, exactly: it fails, and
// returns nil, where that would leave out events that only the log still has. Then read
// the log up to [Hub.Position] and try again with the cursor there. [Hub.Ready] must be
// closed.
//
// wake is called when something waits, then not again before a Take has found nothing.
// It must not block, nor call the subscription before it has returned.
func (h *Hub) Subscribe(f Filter, after int64, wake func(*Subscription)) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	waiting, known := h.recent.after(after, f)
	if !known {
		return nil
	}
	for _, m := range waiting {
		if m.Wire == nil {
			m.Wire = h.encode(m.Event)
		}
	}
	s := &Subscription{hub: h, filter: f, wake: wake, after: after, waiting: waiting}
	h.members.add(s)
	if len(waiting) > 0 {
		s.onNotify()
	}
	return s
}

// push adds a message; false where the subscription has ended, now or before. A cursor
// may be ahead of this hub, for another process may have been quicker: what it covers is
// passed over.
func (s *Subscription) push(m *Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return false
	case m.ID <= s.after:
		return true
	case len(s.waiting) >= waitingMax:
		s.fail(ErrSlow)
		return false
	}
	s.waiting = append(s.waiting, m)
	s.onNotify()
	return true
}

// fail ends the subscription; the caller holds mu.
func (s *Subscription) fail(err error) {
	s.err, s.waiting = err, nil
	s.onNotify()
}

func (s *Subscription) onNotify() {
	if !s.awake {
		s.awake = true
		s.wake(s)
	}
}

// Take returns what waits, and whether there was a nudge. An error says why the
// subscription has ended; nothing follows it.
func (s *Subscription) Take() (messages []*Message, nudged bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages, nudged = s.waiting, s.nudged
	s.waiting, s.nudged = nil, false
	s.awake = len(messages) > 0 || nudged || s.err != nil
	return messages, nudged, s.err
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

// end takes a subscription out; the caller holds the hub's lock.
func (h *Hub) end(s *Subscription, err error) {
	s.mu.Lock()
	if s.err == nil {
		s.fail(err)
	}
	s.mu.Unlock()
	h.members.remove(s)
}
