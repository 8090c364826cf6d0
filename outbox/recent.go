package outbox

import "math"

// maxID is above every event's number.
const maxID = math.MaxInt64

// recent keeps the last events that were delivered: everything above floor.
type recent struct {
	floor int64
	ring  []*Message
	next  int
}

func (r *recent) add(m *Message) {
	if len(r.ring) < recentMax {
		r.ring = append(r.ring, m)
		return
	}
	r.floor = r.ring[r.next].ID
	r.ring[r.next] = m
	r.next = (r.next + 1) % recentMax
}

// after returns what f chooses above a number, in order; false where that is not all
// known here, or too much to wait for one subscriber.
func (r *recent) after(after int64, f Filter) ([]*Message, bool) {
	if after < r.floor {
		return nil, false
	}
	var found []*Message
	for i := range r.ring {
		m := r.ring[(r.next+i)%len(r.ring)]
		if m.ID <= after || !f.Match(&m.Event) {
			continue
		}
		if len(found) == waitingMax {
			return nil, false
		}
		found = append(found, m)
	}
	return found, true
}

// Recent reports whether everything after an event is known without the log: whoever saw it
// last can subscribe at once, or nearly. An event yet to come is not recent.
func (h *Hub) Recent(id int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return id >= h.recent.floor && id <= h.position
}
