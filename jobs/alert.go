package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"holdfast/alert"
)

// alertWorker carries the deliveries of alerts; what an attempt means is alert's.
type alertWorker struct {
	river.WorkerDefaults[alertArgs]
	pool    *pgxpool.Pool
	deliver func(ctx context.Context, id uuid.UUID) (alert.Outcome, error)
	timeout time.Duration
}

func (w *alertWorker) Timeout(*river.Job[alertArgs]) time.Duration { return w.timeout }

func (w *alertWorker) Work(ctx context.Context, job *river.Job[alertArgs]) error {
	id, err := uuid.Parse(job.Args.AlertID)
	if err != nil {
		return river.JobCancel(errBadArgs)
	}
	outcome, err := w.deliver(ctx, id)
	switch {
	case err != nil:
		return err
	case outcome.Again > 0:
		return river.JobSnooze(outcome.Again)
	case outcome.FinishTx == nil:
		return nil
	}
	// The mark and the job's end, both or neither.
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := outcome.FinishTx(ctx, tx); err != nil {
			return err
		}
		return completeTx(ctx, tx, job)
	})
}

// completeTx completes a job that is running. If its row is gone, or was taken from this
// attempt, the effect is kept all the same.
func completeTx(ctx context.Context, tx pgx.Tx, job *river.Job[alertArgs]) error {
	_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
	if err != nil && !errors.Is(err, river.ErrNotFound) {
		return fmt.Errorf("complete job: %w", err)
	}
	return nil
}
