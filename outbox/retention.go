package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
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
	// lockTimeout bounds what making or dropping a partition may cost: it needs the whole
	// log's lock, and all who read or write events wait behind it. Where a dump holds that
	// lock for an hour, the next try is as good.
	lockTimeout = "200ms"
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

// Prune makes the partitions that are due and drops those that are over. It stops at the
// first that fails, for the next would wait for the same lock, and everyone behind it;
// the rest is left for the next time.
func (r *Retention) Prune(ctx context.Context) error {
	now, err := db.New(r.pool).DatabaseTime(ctx)
	if err != nil {
		return fmt.Errorf("read database time: %w", err)
	}
	today := now.UTC().Truncate(day)
	for i := range daysAhead + 1 {
		if err := r.ensure(ctx, today.Add(time.Duration(i)*day)); err != nil {
			return err
		}
	}
	return r.drop(ctx, now.UTC().Add(-r.keep).Truncate(day))
}

// ensure makes one day's partition. A day that has begun in the default partition stays
// there: moving its events would take the log's lock for as long.
func (r *Retention) ensure(ctx context.Context, from time.Time) error {
	name := partitionPrefix + from.Format(dayLayout)
	exists, err := db.New(r.pool).RelationExists(ctx, name)
	if err != nil {
		return fmt.Errorf("look for partition %s: %w", name, err)
	}
	if exists {
		return nil
	}
	err = r.locked(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(
			"CREATE TABLE %s PARTITION OF purchase_event FOR VALUES FROM ('%s') TO ('%s')",
			pgx.Identifier{name}.Sanitize(), from.Format(time.RFC3339), from.Add(day).Format(time.RFC3339)))
		return err
	})
	switch code(err) {
	case pgerrcode.DuplicateTable, pgerrcode.UniqueViolation, pgerrcode.DuplicateObject:
		return nil // another process was quicker
	case pgerrcode.CheckViolation:
		r.log.InfoContext(ctx, "a day's events stay in the default partition", "day", from.Format(time.DateOnly))
		return nil
	}
	if err != nil {
		return fmt.Errorf("make partition %s: %w", name, err)
	}
	return nil
}

// drop takes away all days before one.
func (r *Retention) drop(ctx context.Context, before time.Time) error {
	names, err := db.New(r.pool).EventDays(ctx)
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for _, name := range names {
		from, err := time.Parse(partitionPrefix+dayLayout, name)
		if err != nil || !from.Before(before) {
			continue
		}
		if err := r.dropDay(ctx, name); err != nil {
			return err
		}
	}
	return r.clearDefault(ctx, before)
}

// dropDay raises dropped_id in the same transaction: a reader that finds the events gone
// finds it raised, too.
func (r *Retention) dropDay(ctx context.Context, name string) error {
	table := pgx.Identifier{name}.Sanitize()
	err := r.locked(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if _, err := q.LockEventHead(ctx); err != nil {
			return err
		}
		var last int64
		if err := tx.QueryRow(ctx, "SELECT COALESCE(max(id), 0) FROM "+table).Scan(&last); err != nil {
			return err
		}
		if err := q.RaiseDropped(ctx, last); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DROP TABLE "+table)
		return err
	})
	if code(err) == pgerrcode.UndefinedTable {
		return nil // another process was quicker
	}
	if err != nil {
		return fmt.Errorf("drop partition %s: %w", name, err)
	}
	r.log.InfoContext(ctx, "dropped a day of events", "partition", name)
	return nil
}

func (r *Retention) clearDefault(ctx context.Context, before time.Time) error {
	err := r.locked(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if _, err := q.LockEventHead(ctx); err != nil {
			return err
		}
		last, err := q.DeleteDefaultEvents(ctx, before)
		if err != nil || last == 0 {
			return err
		}
		return q.RaiseDropped(ctx, last)
	})
	if err != nil {
		return fmt.Errorf("clear default partition: %w", err)
	}
	return nil
}

// locked runs do in a transaction that waits for no lock longer than [lockTimeout].
func (r *Retention) locked(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, r.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+lockTimeout+"'"); err != nil {
			return err
		}
		return do(tx)
	})
}

// code is the SQLSTATE of a database's error, empty for any other.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
