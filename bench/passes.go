package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// passDelay is what each broker call takes here.
	passDelay = 5 * time.Millisecond
	// passWorkers is the product's default of concurrent passes, for both sides.
	passWorkers = 50
	// claimRows is a polling worker's usual batch.
	claimRows = 500
	// textbookRate is the polling worker of the textbooks: 50 rows, once a second.
	textbookRate = 50
	// settlePatience bounds one round; settlePoll is how often it is looked at.
	settlePatience = 20 * time.Minute
	settlePoll     = 100 * time.Millisecond
)

var passColumns = []string{"per_second", "first_s", "all_s"}

// unlimited lifts the manners towards a real broker, 50 calls a second, which would be
// all that is measured.
var unlimited = []string{"HOLDFAST_BROKER_RATE=100000000"}

//go:embed unknown.sql
var unknownSQL string

// passes measures how fast purchases that fall due at once are settled.
func (l *env) passes() ([]Case, error) {
	l.broker.delay.Store(int64(passDelay))
	l.onEnd(func() error { l.broker.delay.Store(0); return nil })
	c, err := l.compare(fmt.Sprintf("%d due, broker 5 ms", l.o.Due), passColumns,
		subject{"holdfast", l.reconcile},
		subject{"polling worker", l.poll},
		subject{"the textbook's 50 a second", func() (Values, error) { return Values{"per_second": textbookRate}, nil }})
	c.Note = fmt.Sprintf("%d passes at once on both sides; from the moment all are due to the first and the last one settled", passWorkers)
	return []Case{c}, err
}

// reconcile lets the product settle them: rows and jobs as an outage leaves them, each
// job asleep until its purchase is due.
func (l *env) reconcile() (Values, error) {
	database, err := l.copyOf(productTemplate)
	if err != nil {
		return nil, err
	}
	due, err := l.fill(database, unknownSQL)
	if err != nil {
		return nil, err
	}
	s, err := l.serve(database, append(unlimited, fmt.Sprint("HOLDFAST_WORKERS=", passWorkers))...)
	if err != nil {
		return nil, err
	}
	values, err := l.awaitSettled(database, "transaction_history", due)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.tail())
	}
	s.kill()
	return values, nil
}

// fill makes the purchases and says when they are due.
func (l *env) fill(database, statement string) (time.Time, error) {
	due := time.Now().Add(l.o.DueLead)
	err := l.with(database, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(l.ctx, statement, l.o.Due, l.o.Accounts, due); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		_, err := conn.Exec(l.ctx, "VACUUM ANALYZE")
		return err
	})
	if err == nil && time.Now().After(due) {
		err = fmt.Errorf("this machine took more than %s to fill the table", l.o.DueLead)
	}
	return due, err
}

// awaitSettled waits for the last purchase and works out the figure from the rows' times.
func (l *env) awaitSettled(database, table string, due time.Time) (values Values, err error) {
	err = l.with(database, func(conn *pgx.Conn) error {
		if err := awaitNone(l.ctx, conn, table); err != nil {
			return err
		}
		var count int
		var first, last time.Time
		err := conn.QueryRow(l.ctx, "SELECT count(*), min(settled_at), max(settled_at) FROM "+table+" WHERE status = 'COMPLETED'").Scan(&count, &first, &last)
		if err != nil {
			return fmt.Errorf("read times: %w", err)
		}
		values = Values{
			"per_second": float64(count) / last.Sub(due).Seconds(),
			"first_s":    first.Sub(due).Seconds(), "all_s": last.Sub(due).Seconds(),
		}
		return nil
	})
	return values, err
}

// awaitNone waits until no purchase is open.
func awaitNone(ctx context.Context, conn *pgx.Conn, table string) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	for {
		var left bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table+" WHERE status = 'UNKNOWN') OR EXISTS (SELECT FROM "+table+" WHERE status = 'PENDING')").Scan(&left)
		if err != nil {
			return fmt.Errorf("wait for settling: %w", err)
		}
		if !left {
			return nil
		}
		time.Sleep(settlePoll)
	}
}

// baselineUnknown makes the same purchases in the baseline's table.
const baselineUnknown = `
INSERT INTO baseline_purchase (id, account_id, key, status, symbol, quantity, limit_price, hold, next_retry)
SELECT gen_random_uuid(), 'bench-' || i % $2::integer, 'due-' || i, 'UNKNOWN', 'AAPL', 10, 25.00, 250.00, $3::timestamptz
FROM generate_series(1, $1::integer) i`

// poll lets a plain polling worker do it, in a process of its own.
func (l *env) poll() (Values, error) {
	database, err := l.copyOf(baselineTemplate)
	if err != nil {
		return nil, err
	}
	due, err := l.fill(database, baselineUnknown)
	if err != nil {
		return nil, err
	}
	s, err := l.startPart("poller", part{Database: l.url(database), Broker: l.broker.url(), Workers: passWorkers, Claim: claimRows})
	if err != nil {
		return nil, err
	}
	values, err := l.awaitSettled(database, "baseline_purchase", due)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.tail())
	}
	s.kill()
	return values, nil
}

// baselineClaim leases due rows to this worker.
const baselineClaim = `
UPDATE baseline_purchase SET next_retry = now() + interval '2 minutes'
WHERE id IN (
    SELECT id FROM baseline_purchase
    WHERE status = 'UNKNOWN' AND next_retry <= now()
    ORDER BY next_retry LIMIT $1 FOR UPDATE SKIP LOCKED)
RETURNING id`

// pollerPause is left between two looks that found nothing.
const pollerPause = time.Second

func (p part) runPoller(ctx context.Context, out io.Writer) error {
	pool, err := poolOf(ctx, p.Database, baselinePool)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: p.Workers}, Timeout: answerPatience}
	say(out, "listening", "nowhere")
	for ctx.Err() == nil {
		rows, _ := pool.Query(ctx, baselineClaim, p.Claim)
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("claim: %w", err)
		}
		if len(ids) == 0 {
			time.Sleep(pollerPause)
			continue
		}
		p.settleAll(ctx, pool, client, ids)
	}
	return nil
}

// settleAll looks a batch up and settles it, so many at once. What fails is due again
// when its lease ends.
func (p part) settleAll(ctx context.Context, pool *pgxpool.Pool, client *http.Client, ids []uuid.UUID) {
	queue := make(chan uuid.UUID, len(ids))
	for _, id := range ids {
		queue <- id
	}
	close(queue)
	var workers sync.WaitGroup
	for range p.Workers {
		workers.Go(func() {
			for id := range queue {
				if lookUp(ctx, client, p.Broker, id) == nil {
					_, _ = pool.Exec(ctx, baselineSettle, id, "o-"+id.String(), "UNKNOWN")
				}
			}
		})
	}
	workers.Wait()
}

func lookUp(ctx context.Context, client *http.Client, broker string, id uuid.UUID) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, broker+"/v1/orders/by-client-order-id/"+id.String(), nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
