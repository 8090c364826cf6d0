package outbox

import (
	"context"
	"time"
)

// poke is a wake-up that is not counted: many before the next look are one.
type poke chan struct{}

func newPoke() poke { return make(poke, 1) }

func (p poke) give() {
	select {
	case p <- struct{}{}:
	default:
	}
}

// sleep returns false where ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// wait returns at the next poke, or after d; false where ctx ended first.
func (p poke) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-p:
	case <-timer.C:
	}
	return true
}
