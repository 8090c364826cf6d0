package outbox_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/pgtest"
	"holdfast/outbox"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// start runs something until the test ends, and waits for its end.
func start(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// change writes one status change in a transaction.
func change(ctx context.Context, tx pgx.Tx, purchase uuid.UUID, account string, version int) error {
	_, err := tx.Exec(ctx, `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
		VALUES ($1, $2, $3, 'UNKNOWN', 'PENDING')`, purchase, account, version)
	return err
}

// commit writes and commits one status change.
func commit(t testing.TB, pool *pgxpool.Pool, purchase uuid.UUID, account string, version int) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return change(t.Context(), tx, purchase, account, version)
	})
	if err != nil {
		t.Fatalf("commit change: %v", err)
	}
}

// logged reads the whole log.
func logged(t testing.TB, pool *pgxpool.Pool) []outbox.Event {
	t.Helper()
	events, err := outbox.NewLog(pool).Read(t.Context(), outbox.Filter{}, 0, 1<<62, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// checkLog fails where numbers have gaps or a purchase's versions are out of order.
func checkLog(t testing.TB, events []outbox.Event) {
	t.Helper()
	versions := map[uuid.UUID]int{}
	for i, e := range events {
		if e.ID != int64(i)+1 {
			t.Fatalf("event %d of the log has id %d", i+1, e.ID)
		}
		if before, known := versions[e.TransactionID]; known && e.Version != before+1 || !known && e.Version != 2 {
			t.Fatalf("event %d: purchase %s goes from version %d to %d", e.ID, e.TransactionID, before, e.Version)
		}
		versions[e.TransactionID] = e.Version
	}
}

// writers make purchases with several changes each, some rolled back, with a pause
// between a row and its commit, so that ids commit out of order. It returns how many
// changes were committed.
func writers(t testing.TB, pool *pgxpool.Pool, n, purchases int, committed func()) int {
	t.Helper()
	var wg sync.WaitGroup
	counts := make([]int, n)
	for w := range n {
		wg.Go(func() {
			for range purchases {
				counts[w] += write(t, pool, committed)
			}
		})
	}
	wg.Wait()
	total := 0
	for _, c := range counts {
		total += c
	}
	return total
}

func write(t testing.TB, pool *pgxpool.Pool, committed func()) (changes int) {
	id, last := uuid.New(), 2+rand.IntN(3)
	for version := 2; version <= last; {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Error(err)
			return changes
		}
		if err := change(t.Context(), tx, id, "acct", version); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(rand.IntN(15)) * time.Millisecond) // what the test is about
		if rand.IntN(10) == 0 {
			_ = tx.Rollback(t.Context())
			continue
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
			return changes
		}
		committed()
		changes++
		version++
	}
	return changes
}

func TestRelayUnderManyWriters(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	relays := [3]*outbox.Relay{}
	for i := range relays {
		relays[i] = outbox.NewRelay(outbox.RelayConfig{Pool: pool, Poll: 50 * time.Millisecond})
		start(t, relays[i].Run)
	}
	total := writers(t, pgtest.Pool(t, pool.Config().ConnString()), 12, 40, func() { relays[rand.IntN(3)].Poke() })
	eventually(t, "all events logged", func() bool { return len(logged(t, pool)) >= total })
	events := logged(t, pool)
	if len(events) != total {
		t.Fatalf("%d events logged, %d committed", len(events), total)
	}
	checkLog(t, events)
}
