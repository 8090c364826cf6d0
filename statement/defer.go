package statement

import (
	"context"
	"crypto/md5" //nolint:gosec // It shortens an id to a key of a table; nothing depends on its strength.
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/statement/db"
)

// deferAll keeps the purchases that are not comparable yet, and what the list names for
// them and for those kept before.
func (w *window) deferAll(ctx context.Context, waiting []ours) error {
	queries := db.New(w.Pool)
	earlier, err := queries.DeferredPurchases(ctx, w.can.Name)
	if err != nil {
		return fmt.Errorf("read deferred purchases: %w", err)
	}
	deferred := make(map[uuid.UUID]bool, len(earlier)+len(waiting))
	for _, id := range earlier {
		deferred[id] = true
	}
	ids := make([]uuid.UUID, len(waiting))
	for i, p := range waiting {
		ids[i], deferred[p.ID] = p.ID, true
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	for chunk := range slices.Chunk(ids, batch) {
		if err := queries.DeferPurchases(ctx, chunk, w.can.Name); err != nil {
			return fmt.Errorf("defer purchases: %w", err)
		}
	}
	return w.deferOrders(ctx, queries, deferred)
}

func (w *window) deferOrders(ctx context.Context, queries *db.Queries, deferred map[uuid.UUID]bool) error {
	params := db.DeferOrdersParams{Broker: w.can.Name}
	for key, orders := range w.listed {
		p, known := w.known[key]
		if !known || !deferred[p.ID] {
			continue
		}
		for _, o := range orders {
			listed, err := json.Marshal(asStored(o))
			if err != nil {
				return fmt.Errorf("encode listed order: %w", err)
			}
			params.Ids = append(params.Ids, p.ID)
			params.Refs = append(params.Refs, orderRef(o))
			params.Listed = append(params.Listed, string(listed))
		}
	}
	if len(params.Ids) == 0 {
		return nil
	}
	if err := queries.DeferOrders(ctx, params); err != nil {
		return fmt.Errorf("defer listed orders: %w", err)
	}
	return nil
}

func orderRef(o broker.ListedOrder) string {
	sum := md5.Sum([]byte(o.OrderID)) //nolint:gosec // See the import.
	return hex.EncodeToString(sum[:])
}

// expediteNamed makes UNKNOWN purchases due that the list has named since they were last.
func (m *Matcher) expediteNamed(ctx context.Context) error {
	queries := db.New(m.Pool)
	for {
		ids, err := queries.NamedUnknown(ctx, m.can.Name, batch)
		if err != nil {
			return fmt.Errorf("read listed purchases: %w", err)
		}
		if err := m.Purchases.ExpediteListed(ctx, ids); err != nil {
			return err
		}
		if err := queries.MarkExpedited(ctx, ids); err != nil {
			return fmt.Errorf("mark expedited purchases: %w", err)
		}
		if len(ids) < batch {
			return nil
		}
	}
}

// compareDeferred compares the deferred purchases that were final before a moment up to
// which the list has been read, and forgets them. What was listed before from is not known,
// so the order of a purchase that is older cannot be missing.
func (m *Matcher) compareDeferred(ctx context.Context, from, before time.Time) ([]Finding, error) {
	queries := db.New(m.Pool)
	var stored []Finding
	for {
		rows, err := queries.RipePurchases(ctx, m.can.Name, before, batch)
		if err != nil {
			return nil, fmt.Errorf("read deferred purchases: %w", err)
		}
		ids := make([]uuid.UUID, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		listed, err := m.deferredOrders(ctx, queries, ids)
		if err != nil {
			return nil, err
		}
		var found []discrepancy
		for _, r := range rows {
			found = append(found, compareFinal(ours(r), listed[r.ID], !r.CreatedAt.Before(from))...)
		}
		more, err := m.store(ctx, found)
		if err != nil {
			return nil, err
		}
		stored = append(stored, more...)
		if err := queries.ForgetDeferred(ctx, ids); err != nil {
			return nil, fmt.Errorf("forget deferred purchases: %w", err)
		}
		if len(rows) < batch {
			return stored, nil
		}
	}
}

func (m *Matcher) deferredOrders(
	ctx context.Context, queries *db.Queries, ids []uuid.UUID,
) (map[uuid.UUID][]broker.ListedOrder, error) {
	rows, err := queries.DeferredOrders(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read deferred orders: %w", err)
	}
	listed := map[uuid.UUID][]broker.ListedOrder{}
	for _, r := range rows {
		var o storedOrder
		if err := json.Unmarshal([]byte(value(r.Listed)), &o); err != nil {
			return nil, fmt.Errorf("read deferred order: %w", err)
		}
		listed[r.TransactionID] = append(listed[r.TransactionID], o.listed())
	}
	return listed, nil
}
