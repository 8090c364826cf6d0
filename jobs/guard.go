package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

const (
	// The wait after an error in a pass, doubled with each; errors are ours (the
	// database away, a bug), never the broker's, whose waits stand on the purchase.
	errorWaitBase = 5 * time.Second
	errorWaitCap  = time.Minute
	// keptErrors is how many errors River keeps with a job. It would keep every one
	// permanently, so the later ones are in the log alone.
	keptErrors = 20
)

var (
	errPanicked    = errors.New("panic; see the log")
	errTimedOut    = errors.New("timed out; see the log")
	errInternal    = errors.New("internal error; see the log")
	errInterrupted = fmt.Errorf("interrupted: %w", context.Canceled)
)

// guard stands around every job. River stores an error's text, and a panic's value,
// word for word in river_job, where River UI shows them, and its ErrorHandler cannot
// change that; so what reaches River here says only of what kind the failure was.
type guard struct {
	river.MiddlewareDefaults
	log *slog.Logger
}

var _ rivertype.WorkerMiddleware = (*guard)(nil)

func (g *guard) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			g.log.ErrorContext(ctx, "job panicked", "job_id", job.ID, "kind", job.Kind,
				"panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			err = report(job, errPanicked)
		}
	}()
	return g.judge(ctx, job, doInner(ctx))
}

func (g *guard) judge(ctx context.Context, job *rivertype.JobRow, err error) error {
	var snooze *rivertype.JobSnoozeError
	var cancel *rivertype.JobCancelError
	if err == nil || errors.As(err, &snooze) || errors.As(err, &cancel) {
		return err
	}
	// The outer context knows nothing of the job's timeout: it ends by a shutdown, or
	// by a cancel from outside. River takes an interrupted job back without counting
	// the attempt, if the error says so.
	if ctx.Err() != nil {
		return errInterrupted
	}
	g.log.ErrorContext(ctx, "job failed", "job_id", job.ID, "kind", job.Kind, "attempt", job.Attempt, "error", err)
	return report(job, scrub(err))
}

// scrub keeps of an error what cannot hold a customer's or a broker's words.
func scrub(err error) error {
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("database error %s; see the log", refused.Code)
	case errors.Is(err, context.DeadlineExceeded):
		return errTimedOut
	default:
		return errInternal
	}
}

// report hands err to River, or only the wait where River has kept enough of them.
func report(job *rivertype.JobRow, err error) error {
	if len(job.Errors) >= keptErrors {
		return river.JobSnooze(errorWait(len(job.Errors)))
	}
	return err
}

// retryPolicy says when a job that failed runs again.
type retryPolicy struct{}

func (retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	return time.Now().Add(errorWait(len(job.Errors)))
}

func errorWait(errorsBefore int) time.Duration {
	wait := errorWaitBase << min(errorsBefore, 10)
	return spread(min(wait, errorWaitCap))
}

// spread takes up to a fifth off d or puts it on, so that what failed together does
// not come back together.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
