package statement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/broker"
	"holdfast/statement/db"
)

const (
	// lease is how long a process that matches may be silent before another takes over; it
	// is renewed with every page.
	lease = 2 * time.Minute
	// overlap is how much of the time before the watermark is matched again, for orders that
	// appear on the list late.
	overlap = time.Hour
	// slice is how much time one window covers: the first match, or one after a long
	// outage, takes several.
	slice = 6 * time.Hour
	// firstRange is how far back the first match of a broker goes.
	firstRange = 24 * time.Hour
	// maxTick is how long a due match may wait for a process to look.
	maxTick = time.Minute
	// maxBackoff is the longest wait after failures, unless the interval is longer.
	maxBackoff = 2 * time.Hour
	// cannotListWait is the wait after the broker said that it has no list.
	cannotListWait = 6 * time.Hour
)

// errLeaseLost ends a match that another process has taken over.
var errLeaseLost = errors.New("another process has taken the match over")

// Run matches at every interval until ctx ends. One process of all does so at a time. A
// match that fails is logged and tried again later; an interval of 0 never matches.
func (m *Matcher) Run(ctx context.Context) error {
	if m.lister == nil || m.Interval <= 0 {
		<-ctx.Done()
		return nil
	}
	for {
		if err := m.turn(ctx); err != nil && ctx.Err() == nil {
			m.Log.ErrorContext(ctx, "match not started", "broker", m.can.Name, "error", err)
		}
		tick := min(m.Interval, maxTick)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tick - rand.N(tick/4+1)): // processes started together look apart
		}
	}
}

// turn matches if it is due and no other process does.
func (m *Matcher) turn(ctx context.Context) error {
	queries := db.New(m.Pool)
	if err := queries.InsertMatch(ctx, m.can.Name); err != nil {
		return fmt.Errorf("insert match: %w", err)
	}
	row, err := queries.AcquireMatch(ctx, lease.Seconds(), m.can.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("acquire match: %w", err)
	}
	t := &turn{Matcher: m, row: row, began: time.Now()}
	t.report.Broker = m.can.Name
	return t.release(ctx, t.run(ctx))
}

// turn is one match of the loop.
type turn struct {
	*Matcher
	row    db.AcquireMatchRow
	report Report
	began  time.Time
	kept   time.Time
}

// run matches from the watermark to what is old enough, window by window, and moves the
// watermark after each.
func (t *turn) run(ctx context.Context) error {
	latest := t.latest(t.row.Now)
	since := latest.Add(-firstRange)
	if t.row.MatchedUntil != nil {
		since = t.row.MatchedUntil.Add(-overlap)
	}
	if t.row.MatchedFrom == nil {
		t.row.MatchedFrom = &since
	}
	t.report.Since = since
	for since.Before(latest) {
		until := since.Add(slice)
		if until.After(latest) {
			until = latest
		}
		if err := t.window(ctx, Range{since, until}, latest); err != nil {
			return err
		}
		if err := t.keep(ctx, &until); err != nil {
			return err
		}
		t.report.Until, since = until, until
	}
	return t.alert(ctx)
}

func (t *turn) window(ctx context.Context, r Range, latest time.Time) error {
	if state := t.Gate.State(); state != broker.Closed {
		return fmt.Errorf("the breaker is %s", state)
	}
	w := t.newWindow(r, latest)
	if err := w.load(ctx, brokerSource{t.lister, t.Gate, t.can.Timeout, t.keepPaged}); err != nil {
		return err
	}
	found, waiting := w.compare()
	if err := w.deferAll(ctx, waiting); err != nil {
		return err
	}
	if err := t.expediteNamed(ctx); err != nil {
		return err
	}
	stored, err := t.store(ctx, found)
	if err != nil {
		return err
	}
	late, err := t.compareDeferred(ctx, *t.row.MatchedFrom, r.Until)
	if err != nil {
		return err
	}
	t.report.add(w.report, stored, late)
	return nil
}

// keepPaged renews the lease between pages, once in a while.
func (t *turn) keepPaged(ctx context.Context) error {
	if time.Since(t.kept) < lease/8 {
		return nil
	}
	return t.keep(ctx, nil)
}

func (t *turn) keep(ctx context.Context, until *time.Time) error {
	t.kept = time.Now()
	n, err := db.New(t.Pool).RenewMatch(ctx, db.RenewMatchParams{
		Broker: t.can.Name, Lease: t.row.Lease, Seconds: lease.Seconds(), MatchedFrom: t.row.MatchedFrom, MatchedUntil: until,
	})
	if err != nil {
		return fmt.Errorf("renew match: %w", err)
	}
	if n == 0 {
		return errLeaseLost
	}
	return nil
}

// release ends the turn, logs what became of it and says when the next one is due.
func (t *turn) release(ctx context.Context, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.can.Timeout)
	defer cancel()
	wait, failures := t.Interval, int32(0)
	switch {
	case errors.Is(failure, context.Canceled):
		wait, failures = 0, t.row.Failures // another process goes on
	case failure != nil:
		failures = t.row.Failures + 1
		wait = t.backoff(failures, failure)
	}
	t.log(ctx, failure, wait)
	return db.New(t.Pool).ReleaseMatch(ctx, db.ReleaseMatchParams{
		Broker: t.can.Name, Lease: t.row.Lease, Wait: wait.Seconds(), Failures: failures,
	})
}

func (t *turn) log(ctx context.Context, failure error, wait time.Duration) {
	log := t.Log.With("broker", t.can.Name, "took", time.Since(t.began).Round(time.Millisecond).String(),
		"orders", t.report.Orders, "foreign", t.report.Foreign, "purchases", t.report.Purchases, "findings", len(t.report.New))
	switch {
	case errors.Is(failure, context.Canceled):
		log.InfoContext(ctx, "match interrupted")
	case errors.Is(failure, broker.ErrCannotList):
		log.InfoContext(ctx, "broker's list not matched", "error", failure, "again", wait.String())
	case failure != nil:
		log.WarnContext(ctx, "broker's list not matched", "error", failure, "again", wait.String())
	default:
		log.InfoContext(ctx, "broker's list matched", "since", t.report.Since, "until", t.report.Until)
	}
}

// backoff doubles the interval with each failure. A broker without a list may get one with
// its next release.
func (t *turn) backoff(failures int32, failure error) time.Duration {
	wait := t.Interval
	if errors.Is(failure, broker.ErrCannotList) {
		return max(cannotListWait, wait)
	}
	for range min(failures, 20) {
		wait = min(2*wait, max(maxBackoff, t.Interval))
	}
	return wait
}
