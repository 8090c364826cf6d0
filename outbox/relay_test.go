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

	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// start runs something until the test ends, and waits for its end.
func start(t testing.TB, run func(context.Context) error) {
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
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
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
	t.Helper()
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
		<-time.After(time.Duration(rand.IntN(15)) * time.Millisecond) // so that ids commit out of order
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
	total := writers(t, pgtest.Pool(t, pool.Config().ConnString()), 12, 40, func() { relays[rand.IntN(3)].Wake() })
	eventually(t, "all events logged", func() bool { return len(logged(t, pool)) >= total })
	events := logged(t, pool)
	if len(events) != total {
		t.Fatalf("%d events logged, %d committed", len(events), total)
	}
	checkLog(t, events)
}

func TestRelaySurvivesItsBackends(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	doomed := poolNamed(t, pool, "doomed-relay")
	relay := outbox.NewRelay(outbox.RelayConfig{Pool: doomed, Poll: 20 * time.Millisecond})
	start(t, relay.Run)
	ctx, cancel := context.WithCancel(t.Context())
	killed := make(chan int)
	go func() { killed <- killBackends(ctx, t, pool, "doomed-relay") }()
	total := writers(t, pgtest.Pool(t, pool.Config().ConnString()), 8, 40, relay.Wake)
	cancel()
	if n := <-killed; n < 10 {
		t.Fatalf("only %d backends were killed: the test shows nothing", n)
	}
	eventually(t, "all events logged", func() bool { return len(logged(t, pool)) >= total })
	if n := len(logged(t, pool)); n != total {
		t.Fatalf("%d events logged, %d committed", n, total)
	}
	checkLog(t, logged(t, pool))
}

// poolNamed opens a pool on the same database whose backends can be told apart.
func poolNamed(t *testing.T, like *pgxpool.Pool, name string) *pgxpool.Pool {
	t.Helper()
	config := like.Config()
	config.ConnConfig.RuntimeParams["application_name"] = name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// killBackends terminates, every few milliseconds, whatever backend has the name.
func killBackends(ctx context.Context, t *testing.T, pool *pgxpool.Pool, name string) int {
	t.Helper()
	ticker := time.NewTicker(8 * time.Millisecond)
	defer ticker.Stop()
	n := 0
	for {
		select {
		case <-ctx.Done():
			return n
		case <-ticker.C:
		}
		tag, err := pool.Exec(context.WithoutCancel(ctx), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = $1 AND datname = current_database()`, name)
		if err != nil {
			t.Error(err)
			return n
		}
		n += int(tag.RowsAffected())
	}
}

// openTransaction keeps a writing transaction with a snapshot open until the test ends.
func openTransaction(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if err := change(t.Context(), tx, uuid.New(), "never", 2); err != nil {
		t.Fatal(err)
	}
}

func TestRelayPassesLongTransactions(t *testing.T) {
	t.Parallel()
	pool, other := pgtest.New(t), pgtest.New(t)
	openTransaction(t, pool)
	openTransaction(t, other)
	relay := outbox.NewRelay(outbox.RelayConfig{Pool: pool})
	start(t, relay.Run)
	for i := range 20 {
		begun := time.Now()
		commit(t, pool, uuid.New(), "acct", 2)
		relay.Wake()
		eventually(t, "the event is logged", func() bool { return len(logged(t, pool)) == i+1 })
		if took := time.Since(begun); took > time.Second {
			t.Fatalf("event took %v", took)
		}
	}
}

// A row whose transaction takes longer than the mark lags is found all the same, within a
// second of its commit.
func TestRelayFindsStragglers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	relay := outbox.NewRelay(outbox.RelayConfig{Pool: pool})
	start(t, relay.Run)
	late, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	purchase := uuid.New()
	if err := change(t.Context(), late, purchase, "late", 2); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); { // the mark moves past it
		commit(t, pool, uuid.New(), "acct", 2)
		relay.Wake()
		<-time.After(100 * time.Millisecond)
	}
	n := len(logged(t, pool))
	begun := time.Now()
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, pool, purchase, "late", 3)
	relay.Wake()
	eventually(t, "the straggler is logged", func() bool { return len(logged(t, pool)) >= n+2 })
	if took := time.Since(begun); took > time.Second {
		t.Errorf("the straggler took %v", took)
	}
	checkLog(t, logged(t, pool))
}

// move calls the relay's function itself.
func move(t *testing.T, pool *pgxpool.Pool, mark int64) int {
	t.Helper()
	tag, err := pool.Exec(t.Context(), "SELECT * FROM move_outbox($1, 256)", mark)
	if err != nil {
		t.Fatal(err)
	}
	return int(tag.RowsAffected())
}

func TestMoveOutbox(t *testing.T) {
	t.Parallel()
	t.Run("MarkPassesOver", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		commit(t, pool, uuid.New(), "a", 2)
		commit(t, pool, uuid.New(), "a", 2)
		if n := move(t, pool, 1); n != 1 {
			t.Errorf("moved %d above the mark, want 1", n)
		}
		if n := move(t, pool, 1); n != 0 {
			t.Errorf("moved %d more, want none", n)
		}
		if n := move(t, pool, 0); n != 1 {
			t.Errorf("moved %d in all, want 1", n)
		}
	})
	t.Run("NeverAheadOfAPredecessor", func(t *testing.T) {
		t.Parallel()
		pool, id := pgtest.New(t), uuid.New()
		commit(t, pool, id, "a", 2)
		commit(t, pool, id, "a", 3)
		commit(t, pool, id, "a", 4)
		if n := move(t, pool, 1); n != 3 {
			t.Errorf("moved %d, want all 3", n)
		}
		checkLog(t, logged(t, pool))
	})
	t.Run("NeverOverAGap", func(t *testing.T) {
		t.Parallel()
		pool, id, other := pgtest.New(t), uuid.New(), uuid.New()
		commit(t, pool, id, "a", 2) // id 1
		if n := move(t, pool, 0); n != 1 {
			t.Fatalf("moved %d, want 1", n)
		}
		commit(t, pool, id, "a", 3)    // id 2: below the mark
		commit(t, pool, other, "a", 2) // id 3
		commit(t, pool, id, "a", 4)    // id 4: its predecessor is nowhere above the mark
		if n := move(t, pool, 2); n != 3 {
			t.Errorf("moved %d, want 3", n)
		}
		checkLog(t, logged(t, pool))
	})
	t.Run("PredecessorInTheLog", func(t *testing.T) {
		t.Parallel()
		pool, id := pgtest.New(t), uuid.New()
		commit(t, pool, id, "a", 2)
		move(t, pool, 0)
		commit(t, pool, uuid.New(), "a", 2) // id 2: below the mark
		commit(t, pool, id, "a", 3)         // id 3
		if n := move(t, pool, 2); n != 1 {
			t.Errorf("moved %d above the mark, want 1", n)
		}
	})
	t.Run("NumbersStartAboveWhatWasDropped", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		if _, err := pool.Exec(t.Context(), "UPDATE purchase_event_head SET dropped_id = 41"); err != nil {
			t.Fatal(err)
		}
		commit(t, pool, uuid.New(), "a", 2)
		move(t, pool, 0)
		if id := logged(t, pool)[0].ID; id != 42 {
			t.Errorf("the first number is %d, want 42", id)
		}
	})
	t.Run("RefusesAnOldSnapshot", func(t *testing.T) {
		t.Parallel()
		pool := pgtest.New(t)
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		if _, err := tx.Exec(t.Context(), "SELECT * FROM move_outbox(0, 256)"); err == nil {
			t.Error("a batch ran on a snapshot older than its lock")
		}
	})
}
