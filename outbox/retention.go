package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/outbox/db"
)

const (
	// daysAhead is how many days' partitions stand ready: so long may each attempt to
	// make one fail before events go into the default partition.
	daysAhead = 7
	// partitionPrefix and dayLayout make a partition's name.
	partitionPrefix = "purchase_event_"
	dayLayout       = "20060102"
	// pruneEvery is how often [Retention.Run] tries.
	pruneEvery = 10 * time.Minute
	day        = 24 * time.Hour
)

// RetentionConfig of a [Retention].
type RetentionConfig struct {
	Pool *pgxpool.Pool
	// Keep: whole days (UTC) older than this go.
	Keep time.Duration
	Log  *slog.Logger
}

// Retention keeps the log's day partitions: made ahead, dropped when their whole day is
// too old. Any number of processes may do so at once.
type Retention struct {
	pool *pgxpool.Pool
	keep time.Duration
	log  *slog.Logger
}

// NewRetention returns the keeper of a log's days.
func NewRetention(c RetentionConfig) *Retention {
	return &Retention{pool: c.Pool, keep: c.Keep, log: orDiscard(c.Log)}
}

// Run keeps the days, now and every ten minutes, until ctx ends, and returns nil then.
func (r *Retention) Run(ctx context.Context) error {
	trouble := trouble{log: r.log, what: "keeping the event log's days"}
	for {
		trouble.note(ctx, r.Prune(ctx))
		if !sleep(ctx, pruneEvery) {
			return nil
		}
	}
}

// Prune adds the days that are due and drops those that are too old. It stops at the first
// that fails, because the next would wait for the same lock, and everyone behind it; the
// rest is left for the next time.
func (r *Retention) Prune(ctx context.Context) error {
	queries := db.New(r.pool)
	now, err := queries.DatabaseTime(ctx)
	if err != nil {
		return fmt.Errorf("read database time: %w", err)
	}
	today := now.UTC().Truncate(day)
	days, err := queries.EventDays(ctx)
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for i := range daysAhead + 1 {
		if err := r.add(ctx, today.Add(time.Duration(i)*day), days); err != nil {
			return err
		}
	}
	return r.drop(ctx, now.UTC().Add(-r.keep).Truncate(day), days)
}

// add adds one day's partition. A day that has begun in the default partition stays there:
// moving its events would take the log's lock for as long.
func (r *Retention) add(ctx context.Context, from time.Time, days []string) error {
	if slices.Contains(days, partition(from)) {
		return nil
	}
	_, err := db.New(r.pool).AddEventDay(ctx, from)
	switch code(err) {
	case pgerrcode.DuplicateTable, pgerrcode.UniqueViolation, pgerrcode.DuplicateObject:
		return nil // another process was quicker
	case pgerrcode.CheckViolation:
		r.log.InfoContext(ctx, "a day's events stay in the default partition", "day", from.Format(time.DateOnly))
		return nil
	}
	if err != nil {
		return fmt.Errorf("add partition %s: %w", partition(from), err)
	}
	return nil
}

// drop drops all days before one, the oldest first. The last of them may have events in the
// default partition alone.
func (r *Retention) drop(ctx context.Context, before time.Time, days []string) error {
	for _, name := range days {
		from, err := time.Parse(partitionPrefix+dayLayout, name)
		if err != nil || !from.Before(before) {
			continue
		}
		if err := r.dropDay(ctx, from); err != nil {
			return err
		}
		r.log.InfoContext(ctx, "dropped a day of events", "partition", name)
	}
	return r.dropDay(ctx, before.Add(-day))
}

func (r *Retention) dropDay(ctx context.Context, from time.Time) error {
	if err := db.New(r.pool).DropEventDay(ctx, from); err != nil {
		return fmt.Errorf("drop events up to %s: %w", from.Format(time.DateOnly), err)
	}
	return nil
}

func partition(from time.Time) string { return partitionPrefix + from.Format(dayLayout) }

// code is the SQLSTATE of a database's error, empty for any other.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
