package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"holdfast/alert"
	"holdfast/jobs/db"
	"holdfast/purchase"
)

// maxInsert bounds one statement.
const maxInsert = 1000

// silent is River's driver without NOTIFY. A commit that notifies takes a lock on the
// whole cluster, and a purchase's must not; the workers poll every [passPoll] anyway.
type silent struct{ *riverpgxv5.Driver }

func (silent) SupportsListenNotify() bool { return false }

// Scheduler makes sure that work has its jobs. It only inserts, so every process has
// one, whatever its role.
type Scheduler struct {
	client *river.Client[pgx.Tx]
}

var (
	_ purchase.Scheduler = (*Scheduler)(nil)
	_ alert.Scheduler    = (*Scheduler)(nil)
)

// NewScheduler returns the scheduler of one process.
func NewScheduler(pool *pgxpool.Pool) (*Scheduler, error) {
	client, err := river.NewClient(silent{riverpgxv5.New(pool)}, &river.Config{
		// It runs nothing that could log; what fails is returned.
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	return &Scheduler{client: client}, nil
}

// ScheduleTx makes sure that each purchase and alert has one active job that runs now: a
// missing one is inserted, a waiting one is run now, a running one is left alone. Those
// done are completed, those deferred wait. On an error the transaction must be rolled back: it may hold some
// of the jobs.
func (s *Scheduler) ScheduleTx(ctx context.Context, tx pgx.Tx, work purchase.Work) error {
	if len(work.Done) > 0 {
		if err := db.New(tx).CompleteJobs(ctx, work.Done); err != nil {
			return fmt.Errorf("complete jobs: %w", err)
		}
	}
	if len(work.Deferred) > 0 {
		ids, waits := deferred(work)
		if err := db.New(tx).DeferJobs(ctx, ids, waits); err != nil {
			return fmt.Errorf("defer jobs: %w", err)
		}
	}
	for chunk := range slices.Chunk(insertParams(work), maxInsert) {
		if err := s.insertTx(ctx, tx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// ScheduleAlertsTx makes sure that each alert has one active job that runs now.
func (s *Scheduler) ScheduleAlertsTx(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	return s.ScheduleTx(ctx, tx, purchase.Work{Alerts: ids})
}

func deferred(work purchase.Work) (ids []int64, waits []float64) {
	for _, job := range work.Deferred {
		ids, waits = append(ids, job.ID), append(waits, job.Wait.Seconds())
	}
	return ids, waits
}

func insertParams(work purchase.Work) []river.InsertManyParams {
	params := make([]river.InsertManyParams, 0, len(work.Purchases)+len(work.Alerts))
	for _, id := range distinct(work.Purchases) {
		params = append(params, river.InsertManyParams{Args: reconcileArgs{TransactionID: id.String()}})
	}
	for _, id := range distinct(work.Alerts) {
		params = append(params, river.InsertManyParams{Args: alertArgs{AlertID: id.String()}})
	}
	return params
}

// distinct drops repeats, for one statement may not touch a row twice, and sorts, so
// that two batches lock the jobs they share in one order.
func distinct(ids []uuid.UUID) []uuid.UUID {
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(sorted)
}

func (s *Scheduler) insertTx(ctx context.Context, tx pgx.Tx, params []river.InsertManyParams) error {
	results, err := s.client.InsertManyTx(ctx, tx, params)
	if err != nil {
		return fmt.Errorf("insert jobs: %w", err)
	}
	var waiting []int64
	for _, result := range results {
		if result.UniqueSkippedAsDuplicate && result.Job.State != rivertype.JobStateRunning {
			waiting = append(waiting, result.Job.ID)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	// River's own JobRetryTx does the same for one job a round trip.
	if _, err := db.New(tx).RunJobsNow(ctx, waiting); err != nil {
		return fmt.Errorf("run jobs now: %w", err)
	}
	return nil
}
