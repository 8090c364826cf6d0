package purchase

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Work names the jobs that must exist once the transaction commits.
type Work struct {
	// Purchases each need one live reconciliation job, due now.
	Purchases []uuid.UUID
	// Alerts each need one delivery job.
	Alerts []uuid.UUID
}

// Scheduler makes sure, in the caller's transaction, that work has its jobs.
type Scheduler interface {
	ScheduleTx(ctx context.Context, tx pgx.Tx, work Work) error
}
