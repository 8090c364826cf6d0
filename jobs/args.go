package jobs

import (
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

const (
	kindReconcile = "reconcile_purchase"
	kindAlert     = "deliver_alert"

	// The queue of passes is River's default, so that a job somebody inserts by hand
	// is worked too: the sweep counts it as the purchase's live job.
	queuePasses = river.QueueDefault
	// PassQueue is that of the jobs that reconcile purchases.
	PassQueue = queuePasses
	// Alerts have a queue of their own: ten thousand due passes, or a paused queue,
	// must not keep a person from being told.
	queueAlerts = "alerts"

	// River discards a job at its last attempt, and telling when to give up is the
	// purchase's business, so the number is out of reach. It is not the most a
	// smallint holds, because a re-run of a discarded job adds one to it.
	maxAttempts = 30_000
)

// liveStates are the states of a job that will yet run. Without completed among them
// (River's default has it) a purchase that becomes UNKNOWN again gets its job at once.
var liveStates = []rivertype.JobState{
	rivertype.JobStateAvailable,
	rivertype.JobStatePending,
	rivertype.JobStateRunning,
	rivertype.JobStateRetryable,
	rivertype.JobStateScheduled,
}

// reconcileArgs carries nothing of the order: River UI shows args to whoever may look.
type reconcileArgs struct {
	TransactionID string `json:"transaction_id"`
}

func (reconcileArgs) Kind() string { return kindReconcile }

func (reconcileArgs) InsertOpts() river.InsertOpts { return insertOpts(queuePasses) }

type alertArgs struct {
	AlertID string `json:"alert_id"`
}

func (alertArgs) Kind() string { return kindAlert }

func (alertArgs) InsertOpts() river.InsertOpts { return insertOpts(queueAlerts) }

func insertOpts(queue string) river.InsertOpts {
	return river.InsertOpts{
		Queue:       queue,
		MaxAttempts: maxAttempts,
		Priority:    river.PriorityDefault,
		UniqueOpts:  river.UniqueOpts{ByArgs: true, ByState: liveStates},
	}
}
