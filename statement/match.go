package statement

import (
	"context"
	"fmt"
	"time"

	"holdfast/broker"
	"holdfast/statement/db"
)

// Range is a time range of creation: from Since (inclusive) until Until (exclusive).
type Range struct{ Since, Until time.Time }

// defaultRange is how far back a match goes that is not told.
const defaultRange = 24 * time.Hour

// Match compares what was created in r, as the broker lists it. The zero Until means
// everything that is old enough, the zero Since a day before that. It returns
// broker.ErrCannotList if there is no list.
func (m *Matcher) Match(ctx context.Context, r Range) (Report, error) {
	if m.lister == nil {
		return Report{}, broker.ErrCannotList
	}
	keep := func(context.Context) error { return nil }
	return m.matchOnce(ctx, brokerSource{m.lister, m.Gate, m.can.Timeout, keep}, r)
}

// MatchOrders compares a list that was given. The zero times mean the first and the last
// order of the list.
func (m *Matcher) MatchOrders(ctx context.Context, orders []broker.ListedOrder, r Range) (Report, error) {
	first, last := r.Since, r.Until
	for _, o := range orders {
		if r.Since.IsZero() && (first.IsZero() || o.CreatedAt.Before(first)) {
			first = o.CreatedAt
		}
		if r.Until.IsZero() && !o.CreatedAt.Before(last) {
			last = o.CreatedAt.Add(time.Nanosecond)
		}
	}
	return m.matchOnce(ctx, fileSource(orders), Range{first, last})
}

// matchOnce compares one window. A purchase that is not final is left to a later match.
func (m *Matcher) matchOnce(ctx context.Context, from source, r Range) (Report, error) {
	now, err := db.New(m.Pool).Now(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("read the database's clock: %w", err)
	}
	latest := m.latest(now)
	if r.Until.IsZero() || r.Until.After(latest) {
		r.Until = latest
	}
	if r.Since.IsZero() {
		r.Since = r.Until.Add(-defaultRange)
	}
	w := m.newWindow(r, latest)
	if err := w.load(ctx, from); err != nil {
		return Report{}, err
	}
	found, waiting := w.compare()
	if err := m.Purchases.ExpediteListed(ctx, w.named(waiting)); err != nil {
		return Report{}, err
	}
	if w.report.New, err = m.store(ctx, found); err != nil {
		return Report{}, err
	}
	return w.report, m.alert(ctx)
}
