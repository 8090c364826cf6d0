package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/outbox/db"
)

// readTimeout ends a read on a connection that has gone silent.
const readTimeout = 5 * time.Second

// Log reads the events that are kept.
type Log struct {
	queries *db.Queries
}

// NewLog returns the log of a database.
func NewLog(pool *pgxpool.Pool) *Log { return &Log{queries: db.New(pool)} }

// Bounds says where the log stands. Every event above Dropped and up to Last is kept; a
// cursor below Dropped has missed something, one above Last was never given out.
type Bounds struct {
	Dropped int64
	Last    int64
}

// Bounds of now.
func (l *Log) Bounds(ctx context.Context) (Bounds, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	row, err := l.queries.EventBounds(ctx)
	if err != nil {
		return Bounds{}, fmt.Errorf("read event bounds: %w", err)
	}
	return Bounds{Dropped: row.DroppedID, Last: row.LastID}, nil
}

// Read returns up to batch events with after < id <= until that f chooses, in order.
// Fewer than batch means that there are no more.
func (l *Log) Read(ctx context.Context, f Filter, after, until int64, batch int) ([]Event, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := l.read(ctx, f, after, until, int32(batch))
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events(rows), nil
}

// read goes by the purchase where both filters are set; what the account then takes away
// is all or nothing, for a purchase has one account.
func (l *Log) read(ctx context.Context, f Filter, after, until int64, batch int32) ([]db.PurchaseEvent, error) {
	switch {
	case f.PurchaseID != uuid.Nil:
		rows, err := l.queries.EventsAfterOfPurchase(ctx, db.EventsAfterOfPurchaseParams{
			TransactionID: f.PurchaseID, After: after, Until: until, Batch: batch,
		})
		if err == nil && len(rows) > 0 && f.AccountID != "" && f.AccountID != rows[0].AccountID {
			return nil, nil
		}
		return rows, err
	case f.AccountID != "":
		return l.queries.EventsAfterOfAccount(ctx, db.EventsAfterOfAccountParams{
			AccountID: f.AccountID, After: after, Until: until, Batch: batch,
		})
	default:
		return l.queries.EventsAfter(ctx, after, until, batch)
	}
}
