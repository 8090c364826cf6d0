package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"holdfast/purchase"
)

// errBadArgs cancels a job that somebody made by hand and that names nothing.
var errBadArgs = errors.New("args name no id")

// passFunc is purchase.Service.Pass.
type passFunc = func(ctx context.Context, id uuid.UUID, job int64) (purchase.PassOutcome, error)

// reconcileWorker carries one pass. River does not fence a stale attempt: one that was
// rescued may still run beside its successor. The purchase's claim is the fence, so
// here nothing is done about it.
type reconcileWorker struct {
	river.WorkerDefaults[reconcileArgs]
	pass    passFunc
	timeout time.Duration
	log     *slog.Logger
}

func (w *reconcileWorker) Timeout(*river.Job[reconcileArgs]) time.Duration { return w.timeout }

func (w *reconcileWorker) Work(ctx context.Context, job *river.Job[reconcileArgs]) error {
	id, err := uuid.Parse(job.Args.TransactionID)
	if err != nil {
		return river.JobCancel(errBadArgs)
	}
	outcome, err := w.pass(ctx, id, job.ID)
	if errors.Is(err, purchase.ErrNotFound) {
		w.log.WarnContext(ctx, "job of a purchase that does not exist", "purchase_id", id, "job_id", job.ID)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reconcile purchase: %w", err)
	}
	w.log.Log(ctx, level(outcome.Result), "pass ended", "purchase_id", id, "result", outcome.Result, "again", outcome.Again)
	if outcome.Again > 0 {
		// A snooze costs no attempt: when to give up is the purchase's business.
		return river.JobSnooze(outcome.Again)
	}
	return nil
}

// level keeps passes that were never made, of which an outage brings thousands, out of
// the log.
func level(result string) slog.Level {
	if result == "put_off" || result == "nothing" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
