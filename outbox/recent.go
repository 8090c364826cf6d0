package outbox

import (
	"math"
	"sort"
)

// maxID is above every event's number.
const maxID = math.MaxInt64

// recent is the ring of the last events that were delivered, each with one encoded copy:
// everything above floor. All subscribers read from it.
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
	r.floor = max(r.floor, r.ring[r.next].ID)
	r.ring[r.next] = m
	r.next = (r.next + 1) % recentMax
}

// at returns the i-th event, oldest first.
func (r *recent) at(i int) *Message { return r.ring[(r.next+i)%len(r.ring)] }

// from returns the index of the first event that is not below a number.
func (r *recent) from(id int64) int {
	return sort.Search(len(r.ring), func(i int) bool { return r.at(i).ID >= id })
}

// chosen returns up to most events that f chooses from a number on, in order, and the
// number to go on from; zero if there are no more.
func (r *recent) chosen(f Filter, from int64, most int) (found []*Message, rest int64) {
	for i := r.from(from); i < len(r.ring); i++ {
		m := r.at(i)
		if !f.Match(&m.Event) {
			continue
		}
		if len(found) == most {
			return found, m.ID
		}
		found = append(found, m)
	}
	return found, 0
}

// Recent reports whether everything after an event is in the ring: whoever saw it last can
// subscribe at once, or nearly. An event yet to come is not recent.
func (h *Hub) Recent(id int64) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return id >= h.recent.floor && id <= h.position
}
