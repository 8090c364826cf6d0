package api

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"holdfast/outbox"
	"holdfast/purchase"
)

const (
	// maxWait is the longest that a GET is held.
	maxWait = 30 * time.Second
	// lookEvery is how often a waiting GET looks for itself: it is the only way where
	// nothing tells of changes, and a net behind what does.
	lookEvery        = 250 * time.Millisecond
	lookEveryWatched = 2 * time.Second
)

// preferredWait reads "Prefer: wait=N" (RFC 7240). A preference that cannot be read is
// none, as the RFC has it; one above the limit is the limit.
func preferredWait(r *http.Request) time.Duration {
	for _, header := range r.Header.Values("Prefer") {
		for _, preference := range strings.Split(header, ",") {
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 16)
			if err != nil {
				return 0
			}
			return min(time.Duration(n)*time.Second, maxWait)
		}
	}
	return 0
}

// waitFinal holds a request until its purchase is final, the time is over, the client
// is gone or the process stops, and returns the purchase as it is then. It holds no
// connection to the database and no place among the requests meanwhile. Where too many
// wait already it does not wait: a preference is no claim.
func (a *api) waitFinal(r *http.Request, p purchase.Purchase, wait time.Duration) (purchase.Purchase, error) {
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		return p, nil
	}
	releaseSlot(r.Context())
	w := a.watch(p.ID)
	defer w.close()
	over := time.NewTimer(wait)
	defer over.Stop()
	look := time.NewTicker(w.every)
	defer look.Stop()
	for ended := false; ; {
		// The first look comes after the watch began: no change falls in between.
		next, err := a.readVisible(r, p.ID)
		if err != nil || next.Status.Final() || ended {
			return next, err
		}
		select {
		case <-w.changed:
			w.rearm()
		case <-look.C:
		case <-over.C:
			ended = true
		case <-a.ShuttingDown:
			ended = true
		case <-r.Context().Done():
			return next, r.Context().Err()
		}
	}
}

// watch tells of one purchase's changes.
type watch struct {
	changed chan struct{}
	every   time.Duration
	sub     *outbox.Subscription
}

func (a *api) watch(id uuid.UUID) *watch {
	w := &watch{changed: make(chan struct{}, 1), every: lookEvery}
	if a.Hub == nil || !closed(a.Hub.Ready()) {
		return w
	}
	filter := outbox.Filter{PurchaseID: id}
	w.sub = a.Hub.Subscribe(filter, a.Hub.Position(), func(*outbox.Subscription) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	})
	if w.sub != nil {
		w.every = lookEveryWatched
	}
	return w
}

// rearm takes what woke us, so that the next change wakes us again. What it was does not
// matter: the purchase is read again. A subscription that has ended leaves the clock.
func (w *watch) rearm() {
	for {
		messages, nudged, err := w.sub.Take()
		if err != nil || (len(messages) == 0 && !nudged) {
			return
		}
	}
}

func (w *watch) close() {
	if w.sub != nil {
		w.sub.Close(nil)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
