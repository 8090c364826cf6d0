package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/purchase/db"
)

// Get returns a purchase, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Purchase, error) {
	r, err := s.read(ctx, id)
	return fromRow(r), err
}

func (s *Service) read(ctx context.Context, id uuid.UUID) (row, error) {
	r, err := db.New(s.pool).PurchaseByID(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return row{}, ErrNotFound
	}
	if err != nil {
		return row{}, fmt.Errorf("read purchase: %w", err)
	}
	return r, nil
}

// listBatch is how many rows a list reads at once: each may have a broker's answer of
// 64 kB, which is not part of a list.
const listBatch = 50

// List returns a page of purchases, newest first, without the bodies of the broker's
// answers.
func (s *Service) List(ctx context.Context, p ListParams) ([]Purchase, error) {
	var purchases []Purchase
	for wanted := p.Limit; wanted > 0; wanted -= listBatch {
		p.Limit = min(wanted, listBatch)
		rows, err := s.listRows(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("list purchases: %w", err)
		}
		for _, r := range rows {
			r.BrokerBody = nil
			purchases = append(purchases, fromRow(r))
		}
		if len(rows) < p.Limit {
			break
		}
		p.Before = &rows[len(rows)-1].ID
	}
	return purchases, nil
}

func (s *Service) listRows(ctx context.Context, p ListParams) ([]row, error) {
	before := uuid.Max
	if p.Before != nil {
		before = *p.Before
	}
	queries, page := db.New(s.pool), int32(p.Limit)
	var status *string
	if p.Status != nil {
		status = pointer(string(*p.Status))
	}
	switch {
	case p.Status != nil && !p.Status.Final():
		return queries.ListOpenPurchases(ctx, db.ListOpenPurchasesParams{
			Status: *status, AccountID: p.AccountID, Before: before, Page: page,
		})
	case p.AccountID != nil:
		return s.listAccount(ctx, p, status)
	case p.Status != nil && *p.Status == Rejected:
		return queries.ListRejectedPurchases(ctx, before, page)
	default:
		return queries.ListPurchases(ctx, status, before, page)
	}
}

// farFuture is after every purchase's birth.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *Service) listAccount(ctx context.Context, p ListParams, status *string) ([]row, error) {
	queries := db.New(s.pool)
	params := db.ListAccountPurchasesParams{
		AccountID: *p.AccountID, Status: status, BeforeAt: farFuture, Before: uuid.Max, Page: int32(p.Limit),
	}
	if p.Before != nil {
		birth, err := queries.PurchaseCreatedAt(ctx, *p.Before, *p.AccountID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		params.BeforeAt, params.Before = birth, *p.Before
	}
	return queries.ListAccountPurchases(ctx, params)
}

// ResolveBy is when p will be final or in review at the latest; nil if it is.
func (s *Service) ResolveBy(p Purchase) *time.Time {
	return s.brokers.of(p.Broker).Policy.resolveBy(p.Status, p.CreatedAt, p.UnknownSince)
}

// RetryIn is what a client that holds p should wait before it asks again.
func (s *Service) RetryIn(p Purchase) time.Duration {
	if p.NextRetry == nil {
		return time.Second
	}
	return max(time.Until(*p.NextRetry), time.Second)
}

// ExpediteDue makes the job of a purchase that is UNKNOWN and due run now, so that a client
// who looks gets the newest truth. It returns at once and does nothing where enough of
// this is in progress.
func (s *Service) ExpediteDue(ctx context.Context, p Purchase) {
	if p.Status != Unknown || p.NextRetry == nil || time.Until(*p.NextRetry) > 0 {
		return
	}
	select {
	case s.expediting <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.expediting }()
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
