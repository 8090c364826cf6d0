package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Params are the settings that the invariants depend on. They must be those of the workers.
type Params struct {
	PendingGrace   time.Duration
	SweepInterval  time.Duration
	EventRetention time.Duration
	// Brokers are those that workers serve, one at least.
	Brokers []Broker
	// Queues are those that workers serve.
	Queues []string
}

// Broker is one broker's settings.
type Broker struct {
	Name         string
	Timeout      time.Duration
	KeyRetention time.Duration
	MaxAge       time.Duration
	// LongestWait is the furthest ahead that a purchase's next check may be.
	LongestWait time.Duration
}

// driftTolerance is how much later than its purchase a job may be due: the time comes
// from the worker's clock, after the database's.
const driftTolerance = 10 * time.Second

// A Breach is one violation of an invariant.
type Breach struct {
	Invariant int `json:"invariant"`
	// Subject is the id of the account, purchase, broker order, event or sequence.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// A Report is the result of an audit.
type Report struct {
	OK       bool     `json:"ok"`
	Breaches []Breach `json:"breaches"`
	// AwaitingSweep are purchases in UNKNOWN that lost their job so recently that the
	// sweep may not have repaired it yet. They are no breach.
	AwaitingSweep []string `json:"awaiting_sweep"`
	// Warnings concern the database and break no invariant.
	Warnings []string `json:"warnings,omitempty"`
	// Truncated reports that an invariant has more breaches than are listed.
	Truncated bool `json:"truncated,omitempty"`
}

// TxBeginner is a connection or a pool. Its statement timeout bounds each query, and an
// audit of a long history takes its time.
type TxBeginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// limit is how many breaches of one invariant are listed: nobody learns more from the
// next thousand.
const limit = 1000

// Run checks every invariant in one read-only snapshot. It returns an error if the audit
// could not be completed, not if it found something.
func Run(ctx context.Context, db TxBeginner, p Params) (Report, error) {
	report := Report{Breaches: []Breach{}, AwaitingSweep: []string{}}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, options, func(tx pgx.Tx) error {
		return report.fill(ctx, tx, p.arguments())
	})
	report.OK = len(report.Breaches) == 0
	return report, err
}

func (r *Report) fill(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) error {
	for _, invariant := range invariants {
		found, err := invariant.check(ctx, tx, args)
		if err != nil {
			return fmt.Errorf("check invariant %d: %w", invariant.number, err)
		}
		r.add(invariant.number, found)
	}
	awaiting, err := awaitingSweep(ctx, tx, args)
	if err != nil {
		return err
	}
	r.AwaitingSweep = append(r.AwaitingSweep, awaiting...)
	r.Warnings, err = collationWarning(ctx, tx)
	return err
}

func (r *Report) add(number int, found []Breach) {
	if len(found) > limit {
		found, r.Truncated = found[:limit], true
	}
	for _, b := range found {
		b.Invariant = number
		r.Breaches = append(r.Breaches, b)
	}
}
