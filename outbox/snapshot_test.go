package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
)

// While an old snapshot is open, what was moved stays in the index. A batch must not pay
// for it.
func TestRelayIsCheapUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	openTransaction(t, pool)
	const moved = 60_000
	if _, err := pool.Exec(t.Context(), `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
		SELECT gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING' FROM generate_series(1, $1)`, moved); err != nil {
		t.Fatal(err)
	}
	for move(t, pool, 0) > 0 {
		if _, err := pool.Exec(t.Context(), "SELECT * FROM move_outbox(0, 20000)"); err != nil {
			t.Fatal(err)
		}
	}
	fromMark, fromZero := moveTime(t, pool, moved), moveTime(t, pool, 0)
	t.Logf("a batch takes %v from the mark, %v from the beginning", fromMark, fromZero)
	if fromMark > fromZero/2 {
		t.Errorf("the mark saves nothing: %v, and %v without it", fromMark, fromZero)
	}
}

// moveTime is the shortest of a few batches of one event.
func moveTime(t *testing.T, pool *pgxpool.Pool, mark int64) time.Duration {
	t.Helper()
	best := patience
	for range 8 {
		commit(t, pool, uuid.New(), "acct", 2)
		begun := time.Now()
		if n := move(t, pool, mark); n != 1 {
			t.Fatalf("moved %d, want 1", n)
		}
		best = min(best, time.Since(begun))
	}
	return best
}
