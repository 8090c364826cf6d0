package purchase

import (
	"math/rand/v2"
	"time"
)

// Policy is when to try again and when to stop.
type Policy struct {
	// After pass n the wait is min(RetryCap, RetryBase * 2^(n-1)), times 1 ± Jitter.
	RetryBase, RetryCap time.Duration
	Jitter              float64
	// MaxAttempts passes, or MaxAge since the purchase became UNKNOWN, lead to
	// MANUAL_REVIEW, whichever comes first.
	MaxAttempts int
	MaxAge      time.Duration
	// RetryAfterMax is the longest Retry-After of a broker that is obeyed.
	RetryAfterMax time.Duration
	// PendingGrace is how old a PENDING purchase may grow before it is taken as UNKNOWN.
	PendingGrace time.Duration
	// RescueAfter is the lease of a pass: one whose process died runs again after it.
	RescueAfter time.Duration
	// SweepInterval is how often the sweep looks for purchases that are past a limit.
	SweepInterval time.Duration
	// IntentTTL and NotionalTTL are the defaults of valid_until, from the time of recording,
	// for orders by quantity and by notional; 0: none.
	IntentTTL, NotionalTTL time.Duration
	// KeyNamespace is part of every broker key: it separates deployments that share one
	// login at a broker. May be empty.
	KeyNamespace string
}

// resolveBy is when a purchase will be final or in review at the latest: its limit and two
// sweep intervals. A PENDING one first becomes UNKNOWN, by its grace and as many. It returns
// nil if the purchase is final or in review.
func (p Policy) resolveBy(status Status, createdAt time.Time, unknownSince *time.Time) *time.Time {
	var since time.Time
	switch {
	case status == Pending:
		since = createdAt.Add(p.PendingGrace + 2*p.SweepInterval)
	case status == Unknown && unknownSince != nil:
		since = *unknownSince
	default:
		return nil
	}
	by := since.Add(p.MaxAge + 2*p.SweepInterval)
	return &by
}

// Wait returns how long to wait after pass n, n from 1.
func (p Policy) Wait(n int) time.Duration {
	return spread(p.backoff(n), p.Jitter)
}

func (p Policy) backoff(n int) time.Duration {
	wait := p.RetryBase
	for range n - 1 {
		if wait >= p.RetryCap {
			break
		}
		wait *= 2
	}
	return min(wait, p.RetryCap)
}

// spread returns d times an even draw from 1 ± jitter.
func spread(d time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*(2*rand.Float64()-1)))
}

// obeyed bounds the wait that a broker asked for.
func (p Policy) obeyed(retryAfter time.Duration) time.Duration {
	return min(retryAfter, p.RetryAfterMax)
}
