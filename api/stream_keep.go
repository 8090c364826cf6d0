package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"holdfast/auth"
)

const (
	// keepEvery is how often the keeper looks at all streams.
	keepEvery = time.Second
	// checkEvery and checkTimeout: a revoked key must be dead within five seconds, and a
	// question that meets a lost connection is asked once more in that time.
	checkEvery   = 2 * time.Second
	checkTimeout = 2 * time.Second
	// quietMax: the contract's fifteen seconds, less the keeper's second and a slow write.
	quietMax = 11 * time.Second
)

// keep looks after all streams in place of a timer and a goroutine for each. It ends when
// there are none, or may be none any more.
func (s *Streams) keep() {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	// checked is closed when a round of key checks is over: a database that answers
	// slowly must not hold up the comments.
	checked := make(chan struct{})
	close(checked)
	defer func() { <-checked }()
	var asked time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		all := s.all()
		if len(all) == 0 && s.rest() {
			return
		}
		comfort(all)
		if time.Since(asked) < checkEvery-keepEvery/2 || !closed(checked) {
			continue
		}
		asked, checked = time.Now(), make(chan struct{})
		go s.check(all, checked)
	}
}

// rest reports whether there is really nothing left to keep.
func (s *Streams) rest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeping = len(s.open) > 0
	return !s.keeping
}

// comfort gives each quiet stream a comment.
func comfort(all []*stream) {
	due := time.Now().Add(-quietMax).Unix()
	for _, st := range all {
		if sub := st.sub.Load(); sub != nil && st.wrote.Load() <= due {
			sub.WakeIdle()
		}
	}
}

// check ends the streams of keys that are no longer good. A database that cannot be asked
// says nothing about them.
func (s *Streams) check(all []*stream, done chan<- struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
	defer cancel()
	asked := map[auth.Principal]struct{}{}
	for _, st := range all {
		asked[st.principal] = struct{}{}
	}
	living, err := s.p.Keys.ActivePrincipals(ctx, slices.Collect(maps.Keys(asked)))
	if err != nil {
		return
	}
	for _, st := range all {
		if !living[st.principal] {
			st.end()
		}
	}
}
