package purchase

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/purchase/db"
)

// Work names the jobs that must exist once the transaction commits.
type Work struct {
	// Purchases each need one live reconciliation job, due now.
	Purchases []uuid.UUID
	// Alerts each need one delivery job.
	Alerts []uuid.UUID
	// Done are the jobs, by the scheduler's own ids, that have nothing left to do.
	Done []int64
	// Deferred are running jobs that must run again later.
	Deferred []DeferredJob
}

// DeferredJob is a running job, by the scheduler's own id, that must run again after a wait.
type DeferredJob struct {
	ID   int64
	Wait time.Duration
}

func (w Work) empty() bool {
	return len(w.Purchases)+len(w.Alerts)+len(w.Done)+len(w.Deferred) == 0
}

// Scheduler makes sure, in the caller's transaction, that work has its jobs, that deferred
// jobs wait and that jobs without work end. A job that no longer runs is left as it is.
type Scheduler interface {
	ScheduleTx(ctx context.Context, tx pgx.Tx, work Work) error
}

// Alerts raises alerts to operators, at most one of a type per hour.
type Alerts interface {
	Raise(ctx context.Context, kind string, data map[string]any) error
	// Report is Raise for a caller that must go on whether or not it succeeds, and that may
	// call it a thousand times per second.
	Report(ctx context.Context, kind string, data map[string]any)
}

// Params is what a Service works with; every field is required.
type Params struct {
	Pool      *pgxpool.Pool
	Accounts  *account.Store
	Brokers   *Brokers
	Scheduler Scheduler
	Alerts    Alerts
	// Committed is called after a commit that wrote events; it must not block.
	Committed func()
	Switches  *Switches
	Observer  Observer
	Log       *slog.Logger
}

// Service submits, reconciles and resolves purchases. It is safe for concurrent use
// and keeps nothing in memory that another process would need.
type Service struct {
	pool       *pgxpool.Pool
	accounts   *account.Store
	brokers    *Brokers
	scheduler  Scheduler
	alerts     Alerts
	committed  func()
	switches   *Switches
	observer   Observer
	log        *slog.Logger
	expediting chan struct{}
	// Concurrent submissions share the statements of records and settlements, concurrent
	// passes those of claims and conclusions.
	records       *lanes[draft, recordResult]
	settleBatcher *lanes[transition, settleResult]
	claims        *batcher[uuid.UUID, *db.ClaimPassesRow]
	brokerReads   *batcher[uuid.UUID, *string]
	passBatcher   *lanes[transition, settleResult]
	finals        finalCounts
}

// maxHurried bounds the repairs on read in progress at once.
const maxExpediting = 4

// New returns the service.
func New(p Params) *Service {
	s := &Service{
		pool: p.Pool, accounts: p.Accounts, brokers: p.Brokers,
		scheduler: p.Scheduler, alerts: p.Alerts, committed: p.Committed, switches: p.Switches,
		observer: p.Observer, log: p.Log, expediting: make(chan struct{}, maxExpediting),
	}
	always, never := func(error) bool { return true }, func(error) bool { return false }
	s.records = newLanes(recordTimeout, recordsAlone, draft.accountID, s.recordAll)
	s.settleBatcher = newLanes(settleTimeout, always, transition.accountID, s.settleAll)
	s.passBatcher = newLanes(settleTimeout, always, transition.accountID, s.settleAll)
	s.claims = newBatcher(settleTimeout, maxStatements, never, s.claimAll)
	s.brokerReads = newBatcher(settleTimeout, maxStatements, never, s.readBrokers)
	return s
}

// AttemptsLimit is how many passes p gets.
func (s *Service) AttemptsLimit(p Purchase) int { return s.brokers.of(p.Broker).Policy.MaxAttempts }

// Brokers returns the brokers that are served here.
func (s *Service) Brokers() *Brokers { return s.brokers }
