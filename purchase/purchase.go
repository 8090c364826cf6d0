package purchase

import (
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/broker"
)

// Purchase is one buy order that a client asked for: one row of transaction_history.
type Purchase struct {
	ID        uuid.UUID
	AccountID string
	Status    Status
	Version   int
	Order     broker.Order
	// Broker is the name of the broker it was placed with, BrokerKey the key under which
	// that broker knows it, in every attempt.
	Broker    string
	BrokerKey string
	// ValidUntil is when the last byte may be sent for it; nil: at any time.
	ValidUntil     *time.Time
	Hold           decimal.Decimal
	Cost           decimal.NullDecimal
	FilledQuantity decimal.NullDecimal
	// Metadata is the client's JSON object, as sent.
	Metadata string
	Reason   *string
	Evidence *Evidence
	// Attempts counts passes.
	Attempts  int
	NextRetry *time.Time
	// UnknownSince is when it last became UNKNOWN, nil if it never did.
	UnknownSince *time.Time
	// Response is what the broker answered, nil where it has not.
	Response  *Response
	CreatedAt time.Time
	UpdatedAt time.Time
	SettledAt *time.Time
}

// Reserved is what the purchase holds of its account now.
func (p Purchase) Reserved() decimal.Decimal {
	if p.Status.Final() {
		return decimal.Zero
	}
	return p.Hold
}

// Certainty is how sure the outcome is.
func (p Purchase) Certainty() Certainty { return CertaintyOf(p.Status, deref(p.Reason)) }

// Response is the broker's answer as stored: Body is JSON or text, truncated at MaxStoredBody.
type Response struct {
	StatusCode int
	OrderID    *string
	Body       string
	Truncated  bool
}

// MaxStoredBody is how many bytes of a broker's body are kept.
const MaxStoredBody = 64 << 10

// Submission is a purchase that a client asks for, already checked for form.
type Submission struct {
	AccountID      string
	IdempotencyKey string
	Symbol         string
	Quantity       decimal.NullDecimal
	LimitPrice     decimal.NullDecimal
	Notional       decimal.NullDecimal
	// Currency is empty if the client left it to the account.
	Currency string
	// ValidUntil is nil if the client left it to the policy.
	ValidUntil *time.Time
	// Metadata is a compact JSON object.
	Metadata string
}

// Result is the answer to a submission.
type Result struct {
	Purchase Purchase
	// Repeated: the key was used before with the same meaning.
	Repeated bool
}

// ListParams selects purchases, newest first.
type ListParams struct {
	AccountID *string
	Status    *Status
	// Before is the id after which the page starts, exclusive; nil for the newest.
	Before *uuid.UUID
	// Limit is the most to return.
	Limit int
}

// EntryKind tells the three kinds of history entries apart.
type EntryKind string

// The kinds.
const (
	EntryStatus  EntryKind = "status"
	EntryAttempt EntryKind = "attempt"
	EntryNote    EntryKind = "note"
)

// Entry is one line of a purchase's history.
type Entry struct {
	At   time.Time
	Kind EntryKind

	// Of a status: Status, Version, Reason, Actor.
	Status  Status
	Version int
	Reason  *string
	Actor   string

	// Of an attempt: Call, Result, Reason, StatusCode, Duration. Result is empty
	// where the answer was never seen.
	Call       string
	Result     string
	StatusCode *int
	DurationMS *int64

	// Of a note: Code, Detail, Actor.
	Code   string
	Detail string
}

// Resolution is an operator's word on a purchase.
type Resolution struct {
	ID      uuid.UUID
	Outcome Outcome
	Note    string
	OrderID string
	Cost    decimal.NullDecimal
	// Actor is "operator:KEY-ID".
	Actor string
}

// BulkReconciliation selects the purchases that an operator wants reconciled again.
type BulkReconciliation struct {
	Status    Status
	AccountID *string
	Reason    *string
	OlderThan time.Duration
	DryRun    bool
	Actor     string
}

// Summary is what an operator sees first.
type Summary struct {
	Counts             map[Status]int64
	OldestDueRetry     time.Duration
	OldestUnknown      time.Duration
	ReservedUnknown    map[string]decimal.Decimal
	PassesTotal        int64
	ManualReviewsTotal int64
	// Brokers are those that are served here and those with purchases in UNKNOWN.
	Brokers map[string]BrokerSummary
}

// BrokerSummary is what one broker's purchases in UNKNOWN come to.
type BrokerSummary struct {
	// Unknown counts them; the broker has confirmed that it is processing Working of them.
	Unknown, Working int64
	ReservedUnknown  map[string]decimal.Decimal
}
