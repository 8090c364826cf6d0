package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// idlePause keeps one purchase from the next one's way.
	idlePause = 25 * time.Millisecond
	// lastEvents is how long a round waits for the events of its last purchases.
	lastEvents = 500 * time.Millisecond
)

var latencyColumns = []string{"p50_ms", "p99_ms", samples}

// latency measures from a commit to the byte that tells of it: both sides by the time
// that the database wrote into the commit's own record, before its flush to disk.
func (l *env) latency() ([]Case, error) {
	product, err := l.product()
	if err != nil {
		return nil, err
	}
	notes, err := l.copyOf(baselineTemplate)
	if err != nil {
		return nil, err
	}
	if err := l.warm(product); err != nil {
		return nil, err
	}
	seen, err := l.follow(product)
	if err != nil {
		return nil, err
	}
	idle, err := l.compare("idle", latencyColumns,
		subject{"holdfast", func() (Values, error) { return l.eventLatency(product, seen, 1, idlePause) }},
		subject{"one pg_notify", func() (Values, error) { return l.notifyLatency(notes) }})
	if err != nil {
		return nil, err
	}
	busy, err := l.compare(fmt.Sprintf("at %d clients", l.o.Busy), latencyColumns,
		subject{"holdfast", func() (Values, error) { return l.eventLatency(product, seen, l.o.Busy, 0) }},
		subject{"one pg_notify", func() (Values, error) {
			return l.underLoad(product, func() (Values, error) { return l.notifyLatency(notes) })
		}})
	return []Case{idle, busy}, err
}

// eventLatency buys and compares arrivals with commits.
func (l *env) eventLatency(product *server, seen *arrivals, clients int, pause time.Duration) (Values, error) {
	seen.take()
	d := l.load(product, clients, l.o.Accounts)
	d.pause = pause
	if _, _, err := d.run(l.ctx); err != nil {
		return nil, err
	}
	time.Sleep(lastEvents)
	arrived := seen.take()
	latencies := make([]time.Duration, 0, len(arrived))
	err := l.with(product.database, func(conn *pgx.Conn) error {
		return commits(l.ctx, conn, arrived, &latencies)
	})
	values := spread(latencies)
	values[samples] = float64(len(latencies))
	return values, err
}

// commits finds the time of each purchase's settling commit: that of the transaction that
// wrote its row last.
func commits(ctx context.Context, conn *pgx.Conn, arrived map[string]time.Time, latencies *[]time.Duration) error {
	ids := make([]string, 0, len(arrived))
	for id := range arrived {
		ids = append(ids, id)
	}
	rows, err := conn.Query(ctx, "SELECT id::text, pg_xact_commit_timestamp(xmin) FROM transaction_history WHERE id = ANY ($1::uuid[])", ids)
	if err != nil {
		return fmt.Errorf("read commit times: %w", err)
	}
	var id string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		*latencies = append(*latencies, arrived[id].Sub(at))
		return nil
	})
	if err == nil && len(*latencies) == 0 {
		err = errors.New("no event arrived")
	}
	return err
}

// underLoad measures while the usual load runs.
func (l *env) underLoad(product *server, measure func() (Values, error)) (Values, error) {
	ended := make(chan error, 1)
	go func() {
		_, _, err := l.load(product, l.o.Busy, l.o.Accounts).run(l.ctx)
		ended <- err
	}()
	values, err := measure()
	return values, errors.Join(err, <-ended)
}

// notifyLatency is the baseline: a commit of one row and one pg_notify, to its listener.
func (l *env) notifyLatency(database string) (values Values, err error) {
	err = l.with(database, func(listener *pgx.Conn) error {
		if _, err := listener.Exec(l.ctx, "LISTEN bench"); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		return l.with(database, func(sender *pgx.Conn) error {
			values, err = l.notifyAll(listener, sender)
			return err
		})
	})
	return values, err
}

func (l *env) notifyAll(listener, sender *pgx.Conn) (Values, error) {
	arrived, heard := map[int64]time.Time{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	go func() { heard <- hear(ctx, listener, arrived) }()
	var first, last int64
	for until := time.Now().Add(l.o.Duration); time.Now().Before(until); time.Sleep(idlePause) {
		err := sender.QueryRow(ctx, "WITH note AS (INSERT INTO baseline_note DEFAULT VALUES RETURNING id) SELECT id, pg_notify('bench', id::text) FROM note").Scan(&last, nil)
		if err != nil {
			return nil, fmt.Errorf("notify: %w", err)
		}
		if first == 0 {
			first = last
		}
	}
	time.Sleep(lastEvents)
	cancel()
	if err := <-heard; err != nil {
		return nil, err
	}
	return noted(l.ctx, sender, first, arrived)
}

// hear notes when each notification came, until ctx ends.
func hear(ctx context.Context, listener *pgx.Conn, arrived map[int64]time.Time) error {
	for {
		n, err := listener.WaitForNotification(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Told to stop, which shows as an error of the wait.
		}
		if err != nil {
			return fmt.Errorf("hear: %w", err)
		}
		id, err := strconv.ParseInt(n.Payload, 10, 64)
		if err != nil {
			return fmt.Errorf("hear: %w", err)
		}
		arrived[id] = time.Now()
	}
}

func noted(ctx context.Context, conn *pgx.Conn, first int64, arrived map[int64]time.Time) (Values, error) {
	rows, err := conn.Query(ctx, "SELECT id, pg_xact_commit_timestamp(xmin) FROM baseline_note WHERE id >= $1", first)
	if err != nil {
		return nil, fmt.Errorf("read commit times: %w", err)
	}
	var latencies []time.Duration
	var id int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		if came, ok := arrived[id]; ok {
			latencies = append(latencies, came.Sub(at))
		}
		return nil
	})
	values := spread(latencies)
	values[samples] = float64(len(latencies))
	return values, err
}
