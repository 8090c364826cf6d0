package statement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/statement/db"
)

// Kind is a kind of discrepancy.
type Kind string

// The kinds.
const (
	// UnknownOrder: the list has an order under a key of ours, and no purchase has the key.
	UnknownOrder Kind = "unknown_order"
	// SecondOrder: the list has more than one order under one key.
	SecondOrder Kind = "second_order"
	// RejectedButOrdered: the purchase is REJECTED and the list has an order that is not.
	RejectedButOrdered Kind = "rejected_but_ordered"
	// CompletedButMissing: the purchase is COMPLETED and the list has no order that could
	// have completed it.
	CompletedButMissing Kind = "completed_but_missing"
	// QuantityDiffers: another quantity was filled, or another order was placed.
	QuantityDiffers Kind = "quantity_differs"
	// CostDiffers: the order cost another amount.
	CostDiffers Kind = "cost_differs"
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{UnknownOrder, SecondOrder, RejectedButOrdered, CompletedButMissing, QuantityDiffers, CostDiffers}
}

// Finding is one discrepancy between a broker's list and our purchases. It is open until an
// operator closes it with a note.
type Finding struct {
	ID     uuid.UUID
	Kind   Kind
	Broker string
	// PurchaseID is nil for an order that no purchase accounts for.
	PurchaseID *uuid.UUID
	// OrderID is nil if the list has no order.
	OrderID   *string
	Detail    string
	CreatedAt time.Time
	ClosedAt  *time.Time
	Note      *string
}

// ErrNotFound is returned for an id that no finding has.
var ErrNotFound = errors.New("no such finding")

// Findings reads and closes findings.
type Findings struct{ pool *pgxpool.Pool }

// NewFindings returns the findings in pool's database.
func NewFindings(pool *pgxpool.Pool) *Findings { return &Findings{pool} }

// ListParams selects findings.
type ListParams struct {
	// Open selects open or closed findings; nil both.
	Open *bool
	// Kind selects one kind; nil all.
	Kind *Kind
	// Broker selects one broker; nil all. It can be combined with open findings only.
	Broker *string
	// Before is the id after which the page starts, exclusive; nil for the newest.
	Before *uuid.UUID
	// Limit is the maximum number to return.
	Limit int
}

// List returns a page of findings, newest first.
func (f *Findings) List(ctx context.Context, p ListParams) ([]Finding, error) {
	before := uuid.Max
	if p.Before != nil {
		before = *p.Before
	}
	var rows []db.StatementFinding
	var err error
	if p.Open != nil && *p.Open {
		rows, err = db.New(f.pool).ListOpenFindings(ctx, db.ListOpenFindingsParams{
			Before: before, Kind: (*string)(p.Kind), Broker: p.Broker, Page: int32(p.Limit),
		})
	} else {
		rows, err = db.New(f.pool).ListFindings(ctx, db.ListFindingsParams{
			Before: before, Kind: (*string)(p.Kind), Open: p.Open, Page: int32(p.Limit),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", err)
	}
	return fromRows(rows), nil
}

// CountOpen returns how many findings are open.
func (f *Findings) CountOpen(ctx context.Context) (int64, error) {
	n, err := db.New(f.pool).CountOpenFindings(ctx)
	if err != nil {
		return 0, fmt.Errorf("count open findings: %w", err)
	}
	return n, nil
}

// Close closes a finding and returns it. One that is closed already keeps its note.
// It returns ErrNotFound if no finding has the id.
func (f *Findings) Close(ctx context.Context, id uuid.UUID, note, actor string) (Finding, error) {
	queries := db.New(f.pool)
	if _, err := queries.CloseFinding(ctx, note, actor, id); err != nil {
		return Finding{}, fmt.Errorf("close finding: %w", err)
	}
	row, err := queries.FindingByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Finding{}, ErrNotFound
	}
	if err != nil {
		return Finding{}, fmt.Errorf("read finding: %w", err)
	}
	return fromRow(row), nil
}

func fromRows(rows []db.StatementFinding) []Finding {
	findings := make([]Finding, len(rows))
	for i, r := range rows {
		findings[i] = fromRow(r)
	}
	return findings
}

func fromRow(r db.StatementFinding) Finding {
	f := Finding{
		ID: r.ID, Kind: Kind(r.Kind), Broker: r.Broker, OrderID: r.OrderID, Detail: r.Detail,
		CreatedAt: r.CreatedAt, ClosedAt: r.ClosedAt, Note: r.Note,
	}
	if r.TransactionID.Valid {
		f.PurchaseID = &r.TransactionID.UUID
	}
	return f
}
