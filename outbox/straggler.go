package outbox

import (
	"context"
	"time"

	"holdfast/outbox/db"
)

// markLag is how old the mark is kept. A transaction that commits sooner after taking
// its row's id is found by the very next batch; one that takes longer, by the next look
// at what lies below the mark.
const markLag = 2 * time.Second

// sample says that every id up to id had been given out by then.
type sample struct {
	at time.Time
	id int64
}

// watchStragglers moves the mark up behind the outbox's sequence, and finds the rows
// that were committed below it. While an old snapshot keeps the index from being
// cleaned, each look reads all that was moved since; so looks are spaced to take no more
// than a fifth of the time.
func (r *Relay) watchStragglers(ctx context.Context) {
	var samples []sample
	wait := r.poll
	for sleep(ctx, wait) {
		started := time.Now()
		samples = r.advance(ctx, samples)
		wait = max(r.poll, 4*time.Since(started))
	}
}

// advance makes the newest sample that is old enough the mark, if nothing is left below.
// Where anything is odd it forgets all it knows: a mark of 0 is always right.
func (r *Relay) advance(ctx context.Context, samples []sample) []sample {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	now := time.Now()
	queries := db.New(r.pool)
	id, err := queries.OutboxSequence(ctx)
	if err != nil || id < r.mark.Load() {
		r.mark.Store(0)
		return nil
	}
	samples = append(samples, sample{now, id})
	due := 0
	for due < len(samples) && now.Sub(samples[due].at) >= markLag {
		due++
	}
	if due == 0 {
		return samples
	}
	mark := samples[due-1].id
	left, err := queries.OutboxStragglers(ctx, mark)
	switch {
	case err != nil:
		r.mark.Store(0)
	case left:
		r.whole.Store(true)
		r.Wake()
	default:
		r.mark.Store(mark)
	}
	return samples[due:]
}
