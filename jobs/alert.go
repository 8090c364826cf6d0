package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"holdfast/jobs/db"
)

const (
	// alertLife is how long an alert is worth telling; after a day it is in the log,
	// in the summary and in every list, and nobody waits for the message.
	alertLife = 24 * time.Hour
	// The wait after a failed delivery is the alert's age within these bounds: each
	// wait doubles the age, and a job that was lost and made again keeps the pace.
	alertWaitMin = 5 * time.Second
	alertWaitMax = time.Hour
)

// alertWorker delivers one alert. It may deliver one twice, where the process dies
// between the answer and the commit; the id tells the receiver.
type alertWorker struct {
	river.WorkerDefaults[alertArgs]
	pool    *pgxpool.Pool
	webhook *Webhook // nil: a line in the log is the delivery
	timeout time.Duration
	log     *slog.Logger
}

func (w *alertWorker) Timeout(*river.Job[alertArgs]) time.Duration { return w.timeout }

func (w *alertWorker) Work(ctx context.Context, job *river.Job[alertArgs]) error {
	id, err := uuid.Parse(job.Args.AlertID)
	if err != nil {
		return river.JobCancel(errBadArgs)
	}
	alert, err := db.New(w.pool).AlertToDeliver(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read alert: %w", err)
	}
	if err := w.deliver(ctx, alert); err != nil {
		return w.postpone(ctx, job, alert, err)
	}
	return w.finish(ctx, job, (*db.Queries).MarkAlertDelivered, id)
}

func (w *alertWorker) deliver(ctx context.Context, alert db.AlertToDeliverRow) error {
	if w.webhook == nil {
		w.log.ErrorContext(ctx, "alert", "alert_id", alert.ID, "type", alert.Type, "data", json.RawMessage(alert.Data))
		return nil
	}
	return w.webhook.Send(ctx, Alert{
		ID: alert.ID, Type: alert.Type, CreatedAt: alert.CreatedAt, Data: json.RawMessage(alert.Data),
	})
}

func (w *alertWorker) postpone(
	ctx context.Context, job *river.Job[alertArgs], alert db.AlertToDeliverRow, cause error,
) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return cause
	}
	age := time.Duration(alert.Age * float64(time.Second))
	log := w.log.With("alert_id", alert.ID, "type", alert.Type, "age", age.Round(time.Second), "error", cause)
	if age >= alertLife {
		log.ErrorContext(ctx, "alert abandoned: a day of deliveries has failed", "data", json.RawMessage(alert.Data))
		return w.finish(ctx, job, (*db.Queries).MarkAlertAbandoned, alert.ID)
	}
	var refused *RefusedError
	level, wait := slog.LevelWarn, alertWait(age, 0)
	if errors.As(cause, &refused) {
		wait = alertWait(age, refused.Rest)
		if refused.Status == http.StatusGone {
			level = slog.LevelError // waiting mends nothing here
		}
	}
	log.Log(ctx, level, "alert not delivered", "again", wait)
	return river.JobSnooze(wait)
}

// alertWait is the wait after a failure at that age, and never less than the receiver
// asked for. What waits for the end of one rest does not come all at once.
func alertWait(age, rest time.Duration) time.Duration {
	wait := spread(min(max(age, alertWaitMin), alertWaitMax))
	if rest > wait {
		return rest + rand.N(rest/5+1)
	}
	return wait
}

// finish marks the alert and completes its job, both or neither.
func (w *alertWorker) finish(
	ctx context.Context, job *river.Job[alertArgs], mark func(*db.Queries, context.Context, uuid.UUID) error, id uuid.UUID,
) error {
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if err := mark(db.New(tx), ctx, id); err != nil {
			return err
		}
		return completeTx(ctx, tx, job)
	})
	if err != nil {
		return fmt.Errorf("mark alert: %w", err)
	}
	return nil
}

// completeTx completes a job that is running. That its row is gone, or was taken from this
// attempt, is no reason not to keep the effect.
func completeTx(ctx context.Context, tx pgx.Tx, job *river.Job[alertArgs]) error {
	_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
	if err != nil && !errors.Is(err, river.ErrNotFound) {
		return fmt.Errorf("complete job: %w", err)
	}
	return nil
}
