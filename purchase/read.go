package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"holdfast/sql/dbsql"
)

// Get returns a purchase, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Purchase, error) {
	r, err := s.read(ctx, id)
	return fromRow(r), err
}

func (s *Service) read(ctx context.Context, id uuid.UUID) (row, error) {
	r, err := dbsql.New(s.pool).PurchaseByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return row{}, ErrNotFound
	}
	if err != nil {
		return row{}, fmt.Errorf("read purchase: %w", err)
	}
	return r, nil
}

// List returns a page of purchases, newest first.
func (s *Service) List(ctx context.Context, p ListParams) ([]Purchase, error) {
	rows, err := s.listRows(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list purchases: %w", err)
	}
	purchases := make([]Purchase, len(rows))
	for i, r := range rows {
		purchases[i] = fromRow(r)
	}
	return purchases, nil
}

func (s *Service) listRows(ctx context.Context, p ListParams) ([]row, error) {
	before := uuid.Max
	if p.Before != nil {
		before = *p.Before
	}
	queries := dbsql.New(s.pool)
	if p.Status != nil && !p.Status.Final() {
		return queries.ListOpenPurchases(ctx, dbsql.ListOpenPurchasesParams{
			Status: string(*p.Status), AccountID: p.AccountID, Before: before, Page: int32(p.Limit),
		})
	}
	params := dbsql.ListPurchasesParams{AccountID: p.AccountID, Before: before, Page: int32(p.Limit)}
	if p.Status != nil {
		params.Status = pointer(string(*p.Status))
	}
	return queries.ListPurchases(ctx, params)
}

// RetryIn is what a client that holds p should wait before it asks again.
func (s *Service) RetryIn(p Purchase) time.Duration {
	if p.NextRetry == nil {
		return time.Second
	}
	return max(time.Until(*p.NextRetry), time.Second)
}

// Summary returns what an operator sees first.
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	summary := Summary{Counts: map[Status]int64{}, ReservedUnknown: map[string]decimal.Decimal{}}
	for _, status := range Statuses() {
		summary.Counts[status] = 0
	}
	queries := dbsql.New(s.pool)
	counts, err := queries.StatusCounts(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("count purchases: %w", err)
	}
	for _, count := range counts {
		summary.Counts[Status(count.Status)] = count.Purchases
	}
	ages, err := queries.SummaryAges(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("read ages: %w", err)
	}
	summary.OldestDueRetry, summary.OldestUnknown = seconds(ages.OldestDue), seconds(ages.OldestUnknown)
	reserved, err := queries.ReservedUnknown(ctx)
	if err != nil {
		return Summary{}, fmt.Errorf("sum reserved: %w", err)
	}
	for _, r := range reserved {
		summary.ReservedUnknown[r.Currency] = r.Reserved
	}
	return s.totals(ctx, summary)
}

func (s *Service) totals(ctx context.Context, summary Summary) (Summary, error) {
	queries := dbsql.New(s.pool)
	var err error
	if summary.PassesTotal, err = queries.PassesTotal(ctx); err != nil {
		return Summary{}, fmt.Errorf("count passes: %w", err)
	}
	if summary.ManualReviewsTotal, err = queries.ReviewsTotal(ctx); err != nil {
		return Summary{}, fmt.Errorf("count reviews: %w", err)
	}
	return summary, nil
}

// HurryDue makes the job of a purchase that is UNKNOWN and due run now, so that a client
// who looks gets the newest truth. It returns at once and does nothing where enough of
// this is under way.
func (s *Service) HurryDue(ctx context.Context, p Purchase) {
	if p.Status != Unknown || p.NextRetry == nil || time.Until(*p.NextRetry) > 0 {
		return
	}
	select {
	case s.hurried <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.hurried }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: []uuid.UUID{p.ID}})
		})
		if err != nil {
			s.log.Warn("due purchase not hurried", "purchase_id", p.ID, "error", err)
		}
	}()
}
