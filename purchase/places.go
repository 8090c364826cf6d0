package purchase

import (
	"sync"
	"time"
)

const (
	// maxPlaceWait is how long a pass that found no place may be postponed: below what
	// makes its job count as drifted.
	maxPlaceWait = 15 * time.Second
	minPlaceWait = 50 * time.Millisecond
	// firstPassTime is how long a pass is taken to last until one has been measured.
	firstPassTime = 100 * time.Millisecond
)

// places bounds the passes of one broker that are in progress at once, so that a slow
// broker does not take every worker. Whoever finds none is told when to ask again: spread
// over the time in which places become free, not all at once.
type places struct {
	mu    sync.Mutex
	limit int // 0: no bound
	taken int
	// passTime is a moving average of how long a pass keeps its place.
	passTime time.Duration
	// nextFree is when a place is free that nobody was told to wait for.
	nextFree time.Time
}

// take returns a place that must be left, or how long to wait before asking again.
func (p *places) take() (leave func(), wait time.Duration) {
	if p.limit == 0 {
		return func() {}, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.taken < p.limit {
		p.taken++
		return func() { p.leave(now) }, 0
	}
	if p.nextFree.Before(now) {
		p.nextFree = now
	}
	if p.nextFree.Sub(now) < maxPlaceWait {
		p.nextFree = p.nextFree.Add(p.average() / time.Duration(p.limit))
	}
	return nil, min(max(p.nextFree.Sub(now), minPlaceWait), maxPlaceWait)
}

func (p *places) leave(taken time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.passTime = (7*p.average() + time.Since(taken)) / 8
}

func (p *places) average() time.Duration {
	if p.passTime == 0 {
		return firstPassTime
	}
	return p.passTime
}
