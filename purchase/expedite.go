package purchase

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/postgres"
	"holdfast/purchase/db"
)

// The codes of the notes on a purchase that became due because the broker's list names its
// order, or because the broker reported an event.
const (
	noteListed      = "order_listed"
	noteBrokerEvent = "broker_event"
)

// ExpediteListed makes those of ids that are UNKNOWN due now, because the broker's list names
// an order for each. It proves nothing about them: the next pass looks them up.
func (s *Service) ExpediteListed(ctx context.Context, ids []uuid.UUID) error {
	for chunk := range slices.Chunk(ids, bulkBatch) {
		err := s.expediteListed(ctx, chunk)
		for try := 1; postgres.IsDeadlock(err) && try < bulkTries; try++ {
			err = s.expediteListed(ctx, chunk)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) expediteListed(ctx context.Context, ids []uuid.UUID) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		due, err := db.New(tx).ManyDueNow(ctx, string(Unknown), ids)
		if err != nil {
			return fmt.Errorf("make listed purchases due: %w", err)
		}
		return s.noteDue(ctx, tx, due, noteListed, "the broker's list names its order; due now")
	})
}

// ExpediteOrder makes the purchase with this broker key due now if it is UNKNOWN, because the
// broker reported an event of its order. An unknown key, and a purchase in another status or
// already due, is no error. It proves nothing: the next pass looks the order up.
func (s *Service) ExpediteOrder(ctx context.Context, brokerKey string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		due, err := db.New(tx).OrderDueNow(ctx, brokerKey)
		if err != nil {
			return fmt.Errorf("make reported purchase due: %w", err)
		}
		return s.noteDue(ctx, tx, due, noteBrokerEvent, "the broker reported an event of its order; due now")
	})
}

// noteDue notes why purchases became due and makes sure that each has a job that runs now.
func (s *Service) noteDue(ctx context.Context, tx pgx.Tx, due []uuid.UUID, code, why string) error {
	if len(due) == 0 {
		return nil
	}
	err := db.New(tx).InsertNotes(ctx, db.InsertNotesParams{Ids: due, Code: code, Detail: why, Actor: actorWorker})
	if err != nil {
		return fmt.Errorf("note purchases made due: %w", err)
	}
	return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: due})
}
