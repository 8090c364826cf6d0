package audit

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Params are the settings that the invariants speak of.
type Params struct {
	PendingGrace   time.Duration
	SweepInterval  time.Duration
	EventRetention time.Duration
}

// A Breach is one thing that should not be.
type Breach struct {
	Invariant int `json:"invariant"`
	// Subject is the id of the account, purchase or broker order at fault.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// A Report is what an audit found.
type Report struct {
	OK       bool     `json:"ok"`
	Breaches []Breach `json:"breaches"`
	// AwaitingSweep are the purchases in UNKNOWN that lost their job so lately that the
	// sweep may not have come by yet. They are no breach.
	AwaitingSweep []string `json:"awaiting_sweep"`
	// Truncated says that an invariant has more breaches than are listed.
	Truncated bool `json:"truncated,omitempty"`
}

// Beginner is a connection or a pool. Its statement timeout bounds each query, and an
// audit of a long history takes its time.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// most is how many breaches of one invariant are listed: whoever has a thousand of a
// kind learns nothing from the next.
const most = 1000

//go:embed *.sql
var queries embed.FS

// invariants are numbered as in the contract. Each query returns (subject, detail) of
// every breach.
var invariants = []struct {
	number int
	file   string
}{
	{1, "jobs.sql"},
	{2, "money.sql"},
	{3, "retry.sql"},
	{4, "events.sql"},
	{5, "attempts.sql"},
	{6, "orders.sql"},
}

// Run checks every invariant in one read-only snapshot. An error says that the audit
// could not be made, not that it found something.
func Run(ctx context.Context, db Beginner, p Params) (Report, error) {
	report := Report{Breaches: []Breach{}, AwaitingSweep: []string{}}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, options, func(tx pgx.Tx) error {
		return report.fill(ctx, tx, p)
	})
	report.OK = len(report.Breaches) == 0
	return report, err
}

func (r *Report) fill(ctx context.Context, tx pgx.Tx, p Params) error {
	for _, invariant := range invariants {
		found, err := breaches(ctx, tx, invariant.file, invariant.number, p)
		if err != nil {
			return err
		}
		if len(found) > most {
			found, r.Truncated = found[:most], true
		}
		r.Breaches = append(r.Breaches, found...)
	}
	waiting, err := awaiting(ctx, tx, p)
	r.AwaitingSweep = append(r.AwaitingSweep, waiting...)
	return err
}

func breaches(ctx context.Context, tx pgx.Tx, file string, number int, p Params) ([]Breach, error) {
	rows, err := query(ctx, tx, file, p)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Breach, error) {
		b := Breach{Invariant: number}
		return b, row.Scan(&b.Subject, &b.Detail)
	})
	if err != nil {
		return nil, fmt.Errorf("check invariant %d: %w", number, err)
	}
	return found, nil
}

func awaiting(ctx context.Context, tx pgx.Tx, p Params) ([]string, error) {
	rows, err := query(ctx, tx, "awaiting.sql", p)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list what awaits the sweep: %w", err)
	}
	return ids, nil
}

func query(ctx context.Context, tx pgx.Tx, file string, p Params) (pgx.Rows, error) {
	text, err := queries.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read query %s: %w", file, err)
	}
	rows, err := tx.Query(ctx, string(text), pgx.NamedArgs{
		"grace":     p.PendingGrace.Seconds(),
		"sweep":     p.SweepInterval.Seconds(),
		"retention": p.EventRetention.Seconds(),
		"most":      most + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", file, err)
	}
	return rows, nil
}
