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

// noteListed is the code of the note on a purchase that became due because the broker's list
// names its order.
const noteListed = "order_listed"

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
		queries := db.New(tx)
		due, err := queries.ManyDueNow(ctx, string(Unknown), ids)
		if err != nil {
			return fmt.Errorf("make listed purchases due: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		err = queries.InsertNotes(ctx, db.InsertNotesParams{
			Ids: due, Code: noteListed, Detail: "the broker's list names its order; due now", Actor: actorWorker,
		})
		if err != nil {
			return fmt.Errorf("note listed purchases: %w", err)
		}
		return s.scheduler.ScheduleTx(ctx, tx, Work{Purchases: due})
	})
}
