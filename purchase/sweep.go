package purchase

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/purchase/db"
)

const (
	// sweepBatch is what one transaction of a sweep takes on, and sweepRounds how many of
	// them one sweep makes; the rest waits for the next.
	sweepBatch  = 500
	sweepRounds = 200
)

// SweepPending takes purchases that have been PENDING past their grace as UNKNOWN and
// returns how many it changed. Rows that another process is working on are skipped.
func (s *Service) SweepPending(ctx context.Context) (int, error) {
	limits := s.brokers.limits
	changed, err := s.sweep(ctx, func(after uuid.UUID) ([]transition, error) {
		stale, err := db.New(s.pool).StalePending(ctx, db.StalePendingParams{
			Grace: s.brokers.first.Policy.PendingGrace.Seconds(), Brokers: limits.brokers, CallTimeouts: limits.callTimeouts,
			After: after, Batch: sweepBatch,
		})
		changes := make([]transition, len(stale))
		for i, r := range stale {
			changes[i] = interruptionTransition(r.ID, r.Version)
		}
		return changes, err
	})
	for range changed {
		s.observer.OrphanRepaired("pending")
	}
	return changed, err
}

// SweepLimits moves UNKNOWN purchases that have reached their broker's maximum age or number
// of passes to MANUAL_REVIEW, whether or not a pass could run, and returns how many it moved.
func (s *Service) SweepLimits(ctx context.Context) (int, error) {
	limits := s.brokers.limits
	return s.sweep(ctx, func(after uuid.UUID) ([]transition, error) {
		past, err := db.New(s.pool).PastLimits(ctx, db.PastLimitsParams{
			Brokers: limits.brokers, MaxAges: limits.maxAges, MaxAttempts: limits.maxAttempts,
			CallTimeouts: limits.callTimeouts, After: after, Batch: sweepBatch,
		})
		changes := make([]transition, len(past))
		for i, r := range past {
			reason := ReasonAttemptsExhausted
			if r.TooOld {
				reason = ReasonAgeExceeded
			}
			changes[i] = limitTransition(r.ID, r.Version, reason)
		}
		return changes, err
	})
}

// sweep applies what next finds, batch by batch in the order of ids, and returns how many
// purchases changed. One that fails stops neither its batch nor the sweep.
func (s *Service) sweep(ctx context.Context, next func(after uuid.UUID) ([]transition, error)) (int, error) {
	var after uuid.UUID
	var failed error
	changed := 0
	for range sweepRounds {
		changes, err := next(after)
		if err != nil {
			return changed, errors.Join(failed, fmt.Errorf("find purchases to sweep: %w", err))
		}
		if len(changes) == 0 {
			break
		}
		after = changes[len(changes)-1].id
		n, err := oneByOne(changes, func(batch []transition) (int, error) {
			rows, err := s.applyTransitions(ctx, batch, laneLockTimeout)
			return len(rows), err
		})
		changed, failed = changed+n, errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return changed, failed
}

// SweepOrphans gives each UNKNOWN purchase without an active job one and returns how many
// it gave.
func (s *Service) SweepOrphans(ctx context.Context) (int, error) {
	var after uuid.UUID
	var failed error
	repaired := 0
	for range sweepRounds {
		orphans, err := db.New(s.pool).Orphans(ctx, after, sweepBatch)
		if err != nil {
			return repaired, errors.Join(failed, fmt.Errorf("find purchases without a job: %w", err))
		}
		if len(orphans) == 0 {
			break
		}
		after = orphans[len(orphans)-1]
		n, err := oneByOne(orphans, func(batch []uuid.UUID) (int, error) { return len(batch), s.schedule(ctx, batch) })
		repaired, failed = repaired+n, errors.Join(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	for range repaired {
		s.observer.OrphanRepaired("job")
	}
	return repaired, failed
}

func (s *Service) schedule(ctx context.Context, ids []uuid.UUID) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: ids})
	})
}

// maxSweepErrors bounds the errors of one batch that are reported.
const maxSweepErrors = 5

// oneByOne calls do with the whole batch and, if that fails, with each member alone, so
// that one that fails does not stop the others. It returns the sum of what do returned.
func oneByOne[T any](batch []T, do func([]T) (int, error)) (int, error) {
	n, err := do(batch)
	if err == nil || len(batch) == 1 {
		return n, err
	}
	sum, failures := 0, []error{}
	for _, member := range batch {
		n, err := do([]T{member})
		sum += n
		if err != nil && len(failures) < maxSweepErrors {
			failures = append(failures, err)
		}
	}
	return sum, errors.Join(failures...)
}
