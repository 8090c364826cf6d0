package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"holdfast/outbox/db"
)

const (
	// defaultPoll is what a lost wake-up costs. An event must reach open streams within
	// a second, and a poll by the relay may be followed by one of the hub... of another
	// process, whose wake-up was lost as well.
	defaultPoll = 400 * time.Millisecond
	// defaultLinger is the least time between two batches. Under load it gathers the
	// commits of a few milliseconds; the first commit after a pause never waits for it.
	defaultLinger = 4 * time.Millisecond
	// batchMax keeps a batch's answer, some 40 kB, below what a socket takes without a
	// reader: a frozen process cannot keep the server from its commit.
	batchMax = 256
	// moveTimeout ends a batch on a connection that has gone silent. A batch takes
	// milliseconds, and waits for the lock of one other at most.
	moveTimeout = 5 * time.Second
)

// RelayConfig of a [Relay]. Zero durations mean the defaults.
type RelayConfig struct {
	// Pool should be small and apart from the requests', so that no flood of them
	// delays the events.
	Pool *pgxpool.Pool
	// Feed, if not nil, gets what this relay has just committed, in order, and nothing
	// where it does not know what it has committed. It must not block.
	Feed   func([]Event)
	Poll   time.Duration
	Linger time.Duration
	Log    *slog.Logger
}

// Relay moves rows of the outbox into the log. Every process runs one: whoever commits a
// purchase relays it, and every poll finds what a dead process left behind. Batches
// exclude each other through a lock in the database; nothing of a relay is lost with it.
type Relay struct {
	pool    *pgxpool.Pool
	feed    func([]Event)
	poll    time.Duration
	linger  time.Duration
	trouble trouble
	poke    poke

	// mark is where batches start reading; see the function move_outbox. whole asks for
	// the next batch to read from the beginning.
	mark  atomic.Int64
	whole atomic.Bool
	lag   atomic.Int64
	// backend is the server process that ran the last batch.
	backend atomic.Uint32
}

// NewRelay returns a relay that [Relay.Run] sets to work.
func NewRelay(c RelayConfig) *Relay {
	r := &Relay{
		pool: c.Pool, feed: c.Feed, poll: c.Poll, linger: c.Linger, poke: newPoke(),
		trouble: trouble{log: orDiscard(c.Log), what: "relaying events"},
	}
	if r.poll <= 0 {
		r.poll = defaultPoll
	}
	if r.linger <= 0 {
		r.linger = defaultLinger
	}
	return r
}

// Wake says that a transaction with an event has committed. It never blocks, and costs
// nothing where a batch is due anyway.
func (r *Relay) Wake() { r.poke.give() }

// Lag is how long the slowest event of the last batch had waited for its number, or for
// how long none could be given. 0 where nothing waits.
func (r *Relay) Lag() time.Duration {
	return max(time.Duration(r.lag.Load()), r.trouble.lasts())
}

// Run relays until ctx ends, and returns nil then. A database that is away is waited for.
func (r *Relay) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { r.run(ctx); return nil })
	g.Go(func() error { r.watchStragglers(ctx); return nil })
	return g.Wait()
}

func (r *Relay) run(ctx context.Context) {
	for ctx.Err() == nil {
		started := time.Now()
		n, err := r.move(ctx)
		r.trouble.note(ctx, err)
		if err != nil {
			sleep(ctx, r.poll)
			continue
		}
		if n == batchMax {
			continue
		}
		if !r.poke.wait(ctx, r.poll) {
			return
		}
		sleep(ctx, r.linger-time.Since(started))
	}
}

// move relays one batch and returns how many events it had.
func (r *Relay) move(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	mark, whole := r.mark.Load(), r.whole.Swap(false)
	if whole {
		mark = 0
	}
	rows, err := r.batch(ctx, mark)
	if err != nil || (whole && len(rows) == batchMax) {
		r.whole.Store(true)
	}
	if r.feed != nil && (len(rows) > 0 || err != nil) {
		r.feed(events(rows))
	}
	if err != nil {
		return 0, fmt.Errorf("move outbox: %w", err)
	}
	r.lag.Store(int64(slowest(rows)))
	return len(rows), nil
}

// batch is one statement; its rows are committed where it returns no error.
func (r *Relay) batch(ctx context.Context, mark int64) ([]db.PurchaseEvent, error) {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	r.backend.Store(conn.Conn().PgConn().PID())
	rows, err := db.New(conn).MoveOutbox(ctx, mark, batchMax)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Told reports whether a notification of a server process is of this relay's own last
// batch: what it tells of has been fed already, or is about to be.
func (r *Relay) publish(backend uint32) bool { return backend == r.backend.Load() }

func slowest(rows []db.PurchaseEvent) time.Duration {
	var lag time.Duration
	for _, row := range rows {
		lag = max(lag, row.LoggedAt.Sub(row.OccurredAt))
	}
	return lag
}
