package purchase

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/purchase/db"
)

// SweepPending takes up to batch purchases that have been PENDING past their grace as
// UNKNOWN, each through the door, and returns how many it moved. Rows that another
// process is working on are skipped.
func (s *Service) SweepPending(ctx context.Context, batch int) (int, error) {
	stale, err := db.New(s.pool).StalePending(ctx, s.policy.PendingGrace.Seconds(), int32(batch))
	if err != nil {
		return 0, fmt.Errorf("find stale pending purchases: %w", err)
	}
	changes := make([]transition, len(stale))
	for i, r := range stale {
		changes[i] = interruptionTransition(r.ID, r.Version)
	}
	if len(changes) == 0 {
		return 0, nil
	}
	moved, err := s.applyTransitions(ctx, changes)
	for range moved {
		s.observer.OrphanRepaired("pending")
	}
	return len(moved), err
}

// SweepOrphans gives up to batch UNKNOWN purchases that have no live job one each, and
// returns how many it gave.
func (s *Service) SweepOrphans(ctx context.Context, batch int) (int, error) {
	var orphans []uuid.UUID
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if orphans, err = db.New(tx).Orphans(ctx, int32(batch)); err != nil {
			return fmt.Errorf("find purchases without a job: %w", err)
		}
		if len(orphans) == 0 {
			return nil
		}
		return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: orphans})
	})
	if err != nil {
		return 0, err
	}
	for range orphans {
		s.observer.OrphanRepaired("job")
	}
	return len(orphans), nil
}
