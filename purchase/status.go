package purchase

// Status says where a purchase stands; its comment says who acts next. The same
// table stands in the schema (CHECK) and in docs/states.md; a test holds the three
// together.
type Status string

const (
	// Pending: recorded, and its first call is in progress. The call's own process acts
	// next; past the grace, the sweep does.
	Pending Status = "PENDING"
	// Completed: bought. Final.
	Completed Status = "COMPLETED"
	// Rejected: not bought. Final.
	Rejected Status = "REJECTED"
	// Unknown: nobody may say yet. A worker acts next, at next_retry.
	Unknown Status = "UNKNOWN"
	// ManualReview: the workers have given up. An operator acts next.
	ManualReview Status = "MANUAL_REVIEW"
)

// transitions is the whole diagram: what may follow what.
var diagram = map[Status][]Status{
	Pending:      {Completed, Rejected, Unknown},
	Unknown:      {Completed, Rejected, ManualReview},
	ManualReview: {Completed, Rejected, Unknown},
	Completed:    {},
	Rejected:     {},
}

// Statuses returns every status.
func Statuses() []Status {
	return []Status{Pending, Completed, Rejected, Unknown, ManualReview}
}

// Valid reports whether s is a status at all.
func (s Status) Valid() bool {
	_, ok := diagram[s]
	return ok
}

// Final reports whether nothing may follow s.
func (s Status) Final() bool {
	return s == Completed || s == Rejected
}

// CanBecome reports whether next may follow s.
func (s Status) CanBecome(next Status) bool {
	for _, allowed := range diagram[s] {
		if allowed == next {
			return true
		}
	}
	return false
}

// Outcome is what a client may conclude from a status.
type Outcome string

// The outcomes.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeRejected  Outcome = "rejected"
	// OutcomePending: nobody may claim that the stock was bought, nor that it was not.
	OutcomePending Outcome = "pending_reconciliation"
)

// Outcome returns what a client may conclude from s.
func (s Status) Outcome() Outcome {
	switch s {
	case Completed:
		return OutcomeCompleted
	case Rejected:
		return OutcomeRejected
	default:
		return OutcomePending
	}
}

// Certainty is how sure the outcome of a purchase is.
type Certainty string

// The certainties.
const (
	// Settled: final.
	Settled Certainty = "settled"
	// Working: the broker has confirmed the order and is processing it.
	Working Certainty = "working"
	// Uncertain: the outcome is unknown.
	Uncertain Certainty = "uncertain"
	// Review: an operator must decide.
	Review Certainty = "review"
)

// CertaintyOf returns how sure the outcome of a purchase with this status and reason is.
func CertaintyOf(s Status, reason string) Certainty {
	switch {
	case s.Final():
		return Settled
	case s == ManualReview:
		return Review
	case s == Unknown && reason == reasonProcessing:
		return Working
	default:
		return Uncertain
	}
}

// Evidence says what settled a purchase.
type Evidence string

// What can end one: the first call's reply, a pass's lookup or replay, an operator.
const (
	ByReply    Evidence = "reply"
	ByLookup   Evidence = "lookup"
	ByReplay   Evidence = "replay"
	ByOperator Evidence = "operator"
)

// The reasons that the domain itself gives; the others are broker.Reason and the
// broker's own codes.
const (
	ReasonInterrupted        = "interrupted"
	ReasonReconcileRequested = "reconcile_requested"
	ReasonAttemptsExhausted  = "attempts_exhausted"
	ReasonAgeExceeded        = "age_exceeded"
	ReasonKeyExpired         = "key_expired"
	ReasonExpired            = "expired"
	ReasonOperator           = "operator"
	ReasonBroker4xx          = "broker_4xx"

	// reasonProcessing is broker.InProcessing.
	reasonProcessing = "processing"
)
