package statement

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/purchase"
	"holdfast/statement/db"
)

// window is one comparison: every listed order and every purchase of one time range.
type window struct {
	*Matcher
	Range
	// latest is the moment before which things are old enough; Until is not after it.
	latest time.Time
	report Report
	// listed and known are by broker key.
	listed map[string][]broker.ListedOrder
	known  map[string]ours
}

func (m *Matcher) newWindow(r Range, latest time.Time) *window {
	return &window{
		Matcher: m, Range: r, latest: latest, report: Report{Broker: m.can.Name, Since: r.Since, Until: r.Until},
		listed: map[string][]broker.ListedOrder{}, known: map[string]ours{},
	}
}

// load reads both sides. The purchases come last: one whose order is listed was recorded
// before the order was placed, so it is there.
func (w *window) load(ctx context.Context, from source) error {
	err := from.each(ctx, w.Since.Add(-margin), w.Until.Add(margin), w.list)
	if err != nil {
		return err
	}
	return w.readPurchases(ctx)
}

func (w *window) list(o broker.ListedOrder) error {
	if !w.keys.MatchString(o.Key) {
		w.report.Foreign++
		return nil
	}
	for i, known := range w.listed[o.Key] {
		if known.OrderID == o.OrderID {
			w.listed[o.Key][i] = o // a page was read again; the later answer counts
			return nil
		}
	}
	if w.report.Orders++; w.report.Orders > maxOrders {
		return ErrTooMany
	}
	w.listed[o.Key] = append(w.listed[o.Key], o)
	return nil
}

func (w *window) readPurchases(ctx context.Context) error {
	queries := db.New(w.Pool)
	rows, err := queries.PurchasesBetween(ctx,
		firstID(w.Since.Add(-margin-idMargin)), firstID(w.Until.Add(margin+idMargin)), w.can.Name)
	if err != nil {
		return fmt.Errorf("read purchases: %w", err)
	}
	for _, r := range rows {
		w.known[r.BrokerKey] = ours(r)
	}
	if keys := w.unknownKeys(); len(keys) > 0 {
		return w.searchKeys(ctx, queries, keys)
	}
	return nil
}

func (w *window) unknownKeys() []string {
	var keys []string
	for key := range w.listed {
		if _, ok := w.known[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// searchKeys looks for the purchases of orders that are much younger: first those that were
// replayed, for which there is an index, then a day at a time.
func (w *window) searchKeys(ctx context.Context, queries *db.Queries, keys []string) error {
	replayed, err := queries.PurchasesByReplay(ctx, w.can.Name, keys)
	if err != nil {
		return fmt.Errorf("read replayed purchases: %w", err)
	}
	for _, r := range replayed {
		w.known[r.BrokerKey] = ours(r)
	}
	const day = 24 * time.Hour
	oldest := w.Since.Add(-max(keySearch, w.can.KeyRetention) - idMargin)
	for until := w.Since; until.After(oldest); until = until.Add(-day) {
		if keys = w.unknownKeys(); len(keys) == 0 {
			return nil
		}
		rows, err := queries.PurchasesByKey(ctx, db.PurchasesByKeyParams{
			First: firstID(until.Add(-day)), Last: firstID(until), Broker: w.can.Name, Keys: keys,
		})
		if err != nil {
			return fmt.Errorf("search purchases by key: %w", err)
		}
		for _, r := range rows {
			w.known[r.BrokerKey] = ours(r)
		}
	}
	return nil
}

// firstID returns the lowest UUIDv7 of a moment.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(t.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	return id
}

// contains reports whether the purchase was created in the window.
func (w *window) contains(p ours) bool {
	return !p.CreatedAt.Before(w.Since) && p.CreatedAt.Before(w.Until)
}

// compare returns every discrepancy, and the purchases that cannot be compared in full yet
// although they were created in the window or are listed.
func (w *window) compare() (found []discrepancy, waiting []ours) {
	for key, p := range w.known {
		orders, inside := w.listed[key], w.contains(p)
		if len(orders) == 0 && !inside {
			continue
		}
		w.report.Purchases++
		final, whole := p.settledBefore(w.latest), inside && p.settledBefore(w.Until)
		if final {
			found = append(found, compareFinal(p, orders, whole)...)
		} else {
			found = append(found, compareOrders(p, w.ripe(orders))...)
		}
		if !final || inside && !whole {
			waiting = append(waiting, p)
		}
	}
	for _, key := range w.unknownKeys() {
		for _, o := range w.ripe(w.listed[key]) {
			found = append(found, unknownOrder(key, o))
		}
	}
	return found, waiting
}

// ripe returns the orders that are old enough.
func (w *window) ripe(orders []broker.ListedOrder) []broker.ListedOrder {
	old := make([]broker.ListedOrder, 0, len(orders))
	for _, o := range orders {
		if o.CreatedAt.Before(w.latest) {
			old = append(old, o)
		}
	}
	return old
}

// named returns the waiting purchases that are UNKNOWN and listed.
func (w *window) named(waiting []ours) []uuid.UUID {
	var ids []uuid.UUID
	for _, p := range waiting {
		if p.status() == purchase.Unknown && len(w.listed[p.BrokerKey]) > 0 {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
