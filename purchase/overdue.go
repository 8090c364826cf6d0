package purchase

import (
	"context"
	"fmt"
	"time"

	"holdfast/purchase/db"
)

// overdueAfter is how late a check may be before operators are alerted: longer than a lease
// that a dead process left behind.
const overdueAfter = 5 * time.Minute

// AlertOverdue raises purchases.overdue while any check is overdue, for whatever reason:
// no worker, a paused queue, paused passes, an open breaker.
func (s *Service) AlertOverdue(ctx context.Context) error {
	overdue, err := db.New(s.pool).Overdue(ctx, overdueAfter.Seconds())
	if err != nil {
		return fmt.Errorf("count overdue purchases: %w", err)
	}
	if overdue.Purchases == 0 {
		return nil
	}
	return s.alerts.Raise(ctx, AlertOverdue, map[string]any{
		"purchases": overdue.Purchases, "overdue_seconds": int64(overdue.Longest),
	})
}

// Unserved returns the number of open purchases of each broker that this process does not
// serve.
func (s *Service) Unserved(ctx context.Context) (map[string]int64, error) {
	rows, err := db.New(s.pool).Unserved(ctx, s.brokers.Names())
	if err != nil {
		return nil, fmt.Errorf("count purchases of brokers that are not served: %w", err)
	}
	unserved := make(map[string]int64, len(rows))
	for _, r := range rows {
		unserved[r.Broker] = r.Purchases
	}
	return unserved, nil
}

// AlertUnserved raises broker.unserved while open purchases exist whose broker this process
// does not serve.
func (s *Service) AlertUnserved(ctx context.Context) error {
	unserved, err := s.Unserved(ctx)
	if err != nil || len(unserved) == 0 {
		return err
	}
	return s.alerts.Raise(ctx, AlertBrokerUnserved, map[string]any{"serves": s.brokers.Names(), "open_purchases": unserved})
}
