package outbox

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// repeatAfter is how often a trouble that stays is said again: a database that is away
// for an hour is worth sixty lines, not one for each poll.
const repeatAfter = time.Minute

// trouble says in the log that something does not work, and that it works again. It
// knows since when, too, for the lag.
type trouble struct {
	log  *slog.Logger
	what string

	mu    sync.Mutex
	since time.Time
	said  time.Time
}

// note takes the outcome of one attempt. An end of ctx is no trouble.
func (t *trouble) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.over(ctx)
		return
	}
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	if now.Sub(t.said) >= repeatAfter {
		t.said = now
		t.log.WarnContext(ctx, "events: work fails; trying again", "work", t.what, "error", err, "since", t.since)
	}
}

func (t *trouble) over(ctx context.Context) {
	if t.since.IsZero() {
		return
	}
	t.log.InfoContext(ctx, "events: work goes on", "work", t.what, "after", time.Since(t.since).Round(time.Millisecond))
	t.since, t.said = time.Time{}, time.Time{}
}

// lasts tells for how long it has been so, 0 where it is not.
func (t *trouble) lasts() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() {
		return 0
	}
	return time.Since(t.since)
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
