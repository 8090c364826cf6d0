package outbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/localpg"
	"holdfast/outbox"
	holdsql "holdfast/sql"
)

// crashing is a Postgres that a test may crash.
type crashing struct {
	t      *testing.T
	dir    string
	server *localpg.Server
}

func startCrashing(t *testing.T) *crashing {
	t.Helper()
	c := &crashing{t: t, dir: t.TempDir()}
	c.begin()
	t.Cleanup(func() {
		if err := c.server.Crash(context.Background()); err != nil {
			t.Errorf("stop postgres: %v", err)
		}
	})
	return c
}

func (c *crashing) begin() {
	c.t.Helper()
	server, err := localpg.Start(context.Background(), localpg.Config{DataDir: c.dir})
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = server
}

func (c *crashing) crash() {
	c.t.Helper()
	if err := c.server.Crash(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	c.begin()
}

// The database crashes under load, twice; two processes go on by themselves, and each
// subscriber ends with exactly the log.
func TestOutboxSurvivesCrashesOfTheDatabase(t *testing.T) {
	t.Parallel()
	postgres := startCrashing(t)
	if err := holdsql.Migrate(t.Context(), postgres.server.URL()); err != nil {
		t.Fatal(err)
	}
	var pools [2]*pgxpool.Pool
	var readers [2]*reader
	var boxes [2]*outbox.Outbox
	for i := range boxes {
		pools[i] = openPool(t, postgres.server.URL())
		boxes[i] = startOutbox(t, pools[i])
		readers[i] = subscribe(t, boxes[i].Hub, outbox.Filter{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				insist(ctx, pools[w%2], boxes[w%2].Wake)
			}
		})
	}
	for range 2 {
		n := readers[0].has()
		eventually(t, "events flow", func() bool { return readers[0].has() > n+50 && readers[1].has() > n+50 })
		postgres.crash()
	}
	n := readers[0].has()
	eventually(t, "events flow again", func() bool { return readers[0].has() > n+50 && readers[1].has() > n+50 })
	cancel()
	wg.Wait()
	eventually(t, "the outbox is empty", func() bool { return outboxIsEmpty(t, pools[0]) })
	log := logged(t, pools[0])
	checkLog(t, log)
	for i, r := range readers {
		eventually(t, "everything delivered", func() bool { return r.has() >= len(log) })
		if r.failure() != nil {
			t.Errorf("process %d: %v", i, r.failure())
		}
		checkLog(t, r.events)
		if r.has() != len(log) {
			t.Errorf("process %d delivered %d of %d", i, r.has(), len(log))
		}
	}
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// insist commits one change; while the database is away it fails, which is no matter.
func insist(ctx context.Context, pool *pgxpool.Pool, committed func()) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return change(ctx, tx, uuid.New(), "acct", 2) })
	if err == nil {
		committed()
	}
	sleepOr(ctx, time.Millisecond)
}

func sleepOr(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func outboxIsEmpty(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	var empty bool
	if err := pool.QueryRow(t.Context(), "SELECT NOT EXISTS (SELECT FROM outbox)").Scan(&empty); err != nil {
		t.Fatal(err)
	}
	return empty
}
