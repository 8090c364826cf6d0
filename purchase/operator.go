package purchase

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/postgres"
	"holdfast/purchase/db"
)

// bulkBatch is how many purchases of a bulk reconciliation share a transaction, and
// bulkTries how often one is made that had to give way.
const (
	bulkBatch = 200
	bulkTries = 5
)

// Resolve applies an operator's decision to a purchase in review or unknown. The same
// decision again is no error. A completed purchase has its whole quantity filled. While a
// pass is in flight it returns an [*InProgressError]: an order could be sent after the
// decision.
func (s *Service) Resolve(ctx context.Context, r Resolution) (Purchase, error) {
	for {
		now, err := s.read(ctx, r.ID)
		if err != nil {
			return Purchase{}, err
		}
		settled, err := resolvable(now, r)
		if settled || err != nil {
			return fromRow(now), err
		}
		if err := s.notInFlight(ctx, now); err != nil {
			return Purchase{}, err
		}
		moved, ok, err := s.applyTransition(ctx, resolutionTransition(now, r))
		if err != nil {
			return Purchase{}, err
		}
		if ok {
			return fromRow(moved), nil
		}
	}
}

// notInFlight returns an [*InProgressError] while a pass may be in flight. One that begins
// later changes the purchase's claim, which the resolution names.
func (s *Service) notInFlight(ctx context.Context, r row) error {
	timeout := s.brokers.of(r.Broker).can.Timeout
	inFlight, err := db.New(s.pool).InFlight(ctx, timeout.Seconds(), r.ID)
	if err != nil {
		return fmt.Errorf("read whether a pass is in flight: %w", err)
	}
	if inFlight <= 0 {
		return nil
	}
	// Its lease outlives a dead process; a live one ends a pass within two calls.
	return &InProgressError{RetryAfter: min(seconds(inFlight), 2*timeout)}
}

// resolvable reports whether the decision was made before (settled), or returns why it
// cannot be made.
func resolvable(now row, r Resolution) (settled bool, err error) {
	status := Status(now.Status)
	switch {
	case status == Pending:
		return false, ErrNotResolvable
	case !status.Final():
		return false, nil
	case deref(now.Evidence) == string(ByOperator) && status.Outcome() == r.Outcome:
		return true, nil
	default:
		return false, ErrAlreadySettled
	}
}

// Reconcile makes an UNKNOWN purchase due now, and puts one in MANUAL_REVIEW back to
// UNKNOWN with its attempts and age counted afresh.
func (s *Service) Reconcile(ctx context.Context, id uuid.UUID, actor string) (Purchase, error) {
	for {
		now, err := s.read(ctx, id)
		if err != nil {
			return Purchase{}, err
		}
		var after row
		var ok bool
		switch Status(now.Status) {
		case Unknown:
			after, ok, err = s.dueNow(ctx, id, actor)
		case ManualReview:
			after, ok, err = s.applyTransition(ctx, reopeningTransition(now.ID, now.Version, actor))
		default:
			return fromRow(now), ErrNotReconcilable
		}
		if err != nil {
			return Purchase{}, err
		}
		if ok {
			return fromRow(after), nil
		}
	}
}

func (s *Service) dueNow(ctx context.Context, id uuid.UUID, actor string) (after row, ok bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		queries := db.New(tx)
		if after, err = queries.DueNow(ctx, id, string(Unknown)); errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("make purchase due: %w", err)
		}
		ok = true
		if err := noteReconcile(ctx, tx, []uuid.UUID{id}, actor); err != nil {
			return err
		}
		return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: []uuid.UUID{id}})
	})
	return after, ok, err
}

func noteReconcile(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, actor string) error {
	err := db.New(tx).InsertNotes(ctx, db.InsertNotesParams{
		Ids: ids, Code: ReasonReconcileRequested, Detail: "due now", Actor: actor,
	})
	if err != nil {
		return fmt.Errorf("note reconciliation: %w", err)
	}
	return nil
}

// ReconcileMany does what Reconcile does for every purchase that b selects, and returns
// them; a dry run only selects. A purchase that moves on meanwhile is left out.
func (s *Service) ReconcileMany(ctx context.Context, b BulkReconciliation) ([]uuid.UUID, error) {
	var touched []uuid.UUID
	after := uuid.Nil
	for {
		batch, err := db.New(s.pool).SelectReconcilable(ctx, db.SelectReconcilableParams{
			Status: string(b.Status), AccountID: b.AccountID, Reason: b.Reason,
			OlderThan: b.OlderThan.Seconds(), After: after, Batch: bulkBatch,
		})
		if err != nil {
			return touched, fmt.Errorf("select purchases: %w", err)
		}
		if len(batch) == 0 {
			return touched, nil
		}
		after = batch[len(batch)-1].ID
		done, err := s.reconcileBatch(ctx, b, batch)
		// Another's bulk, or River's upkeep, may lock the same rows in another order.
		for try := 1; postgres.IsDeadlock(err) && try < bulkTries; try++ {
			done, err = s.reconcileBatch(ctx, b, batch)
		}
		touched = append(touched, done...)
		if err != nil {
			return touched, err
		}
	}
}

func (s *Service) reconcileBatch(ctx context.Context, b BulkReconciliation, batch []db.SelectReconcilableRow) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, len(batch))
	changes := make([]transition, len(batch))
	for i, r := range batch {
		ids[i] = r.ID
		changes[i] = reopeningTransition(r.ID, r.Version, b.Actor)
	}
	if b.DryRun {
		return ids, nil
	}
	if b.Status == Unknown {
		return s.manyDueNow(ctx, ids, b.Actor)
	}
	moved, err := s.applyTransitions(ctx, changes, laneLockTimeout)
	reopened := make([]uuid.UUID, 0, len(moved))
	for _, r := range moved {
		reopened = append(reopened, r.ID)
	}
	return reopened, err
}

func (s *Service) manyDueNow(ctx context.Context, ids []uuid.UUID, actor string) (due []uuid.UUID, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if due, err = db.New(tx).ManyDueNow(ctx, string(Unknown), ids); err != nil {
			return fmt.Errorf("make purchases due: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		if err := noteReconcile(ctx, tx, due, actor); err != nil {
			return err
		}
		return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: due})
	})
	return due, err
}
