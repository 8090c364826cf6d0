package outbox_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
)

func prune(t *testing.T, pool *pgxpool.Pool, keep time.Duration) {
	t.Helper()
	r := outbox.NewRetention(outbox.RetentionConfig{Pool: pool, Keep: keep})
	if err := r.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func partitions(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_inherits WHERE inhparent = 'purchase_event'::regclass").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func bounds(t testing.TB, pool *pgxpool.Pool) outbox.Bounds {
	t.Helper()
	b, err := outbox.NewLog(pool).Bounds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func TestRetentionMakesDaysAhead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	prune(t, pool, 168*time.Hour)
	prune(t, pool, 168*time.Hour)
	if n := partitions(t, pool); n != 9 { // the default, today and seven more
		t.Fatalf("%d partitions, want 9", n)
	}
	fill(t, pool, 1)
	var stray int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM purchase_event_default").Scan(&stray); err != nil || stray != 0 {
		t.Errorf("%d events in the default partition (%v), want none", stray, err)
	}
}

func TestRetentionLeavesADayThatBeganInTheDefault(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, 3)
	prune(t, pool, 168*time.Hour)
	if n := partitions(t, pool); n != 8 {
		t.Errorf("%d partitions, want all but today's: 8", n)
	}
	fill(t, pool, 2)
	if b := bounds(t, pool); b != (outbox.Bounds{Last: 5}) {
		t.Errorf("bounds %+v, want 5 events from the first", b)
	}
}

func TestRetentionDropsWholeDays(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	prune(t, pool, 168*time.Hour)
	exec(t, pool, `CREATE TABLE purchase_event_20200102 PARTITION OF purchase_event
		FOR VALUES FROM ('2020-01-02 00:00:00+00') TO ('2020-01-03 00:00:00+00')`)
	old := func(id int, at string) {
		exec(t, pool, `INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status, occurred_at, logged_at)
			VALUES ($1, gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING', $2, $2)`, id, at)
	}
	old(1, "2020-01-01T12:00:00Z") // in the default partition
	old(2, "2020-01-02T12:00:00Z")
	fill(t, pool, 3)
	prune(t, pool, 168*time.Hour)
	if b := bounds(t, pool); b != (outbox.Bounds{Dropped: 2, Last: 5}) {
		t.Errorf("bounds %+v, want 2 dropped of 5", b)
	}
	if n := len(logged(t, pool)); n != 3 {
		t.Errorf("%d events are left, want 3", n)
	}
}

// A day in the default partition cannot be dropped: then the days after it stay, too, for a
// gap in the middle of the log would look like lost events.
func TestRetentionDropsFromTheBeginning(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, day := range []string{"2020-01-01", "2020-01-03"} {
		exec(t, pool, "SELECT add_event_day($1)", day)
	}
	for id, at := range []string{"2020-01-01 12:00Z", "2020-01-02 12:00Z", "2020-01-03 12:00Z"} {
		exec(t, pool, `INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status, occurred_at, logged_at)
			VALUES ($1, gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING', $2, $2)`, id+1, at)
	}
	exec(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
		CREATE TRIGGER refuse BEFORE DELETE ON purchase_event_default FOR EACH ROW EXECUTE FUNCTION refuse()`)
	r := outbox.NewRetention(outbox.RetentionConfig{Pool: pool, Keep: time.Hour})
	if err := r.Prune(t.Context()); err == nil {
		t.Error("the default partition was cleared: the test shows nothing")
	}
	if b := bounds(t, pool); b != (outbox.Bounds{Dropped: 1, Last: 3}) {
		t.Errorf("bounds %+v, want the first of 3 dropped", b)
	}
	if n := len(logged(t, pool)); n != 2 {
		t.Errorf("%d events are left, want 2", n)
	}
}

// A failover may set the clock back a little: the times of the log do not follow.
func TestLogTimesIncreaseThoughTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status, occurred_at, logged_at)
		VALUES (1, gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING', now(), now() + interval '30 seconds')`)
	fill(t, pool, 1)
	var increases bool
	if err := pool.QueryRow(t.Context(), "SELECT bool_and(logged_at > now() + interval '20 seconds') FROM purchase_event").Scan(&increases); err != nil || !increases {
		t.Errorf("the second event is logged before the first (%v)", err)
	}
}

func TestRetentionKeepsYesterday(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for hours, kept := range map[int]int{20: 1, 49: 0} {
		exec(t, pool, `INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status, occurred_at, logged_at)
			SELECT $1, gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING', at, at
			FROM (SELECT now() - make_interval(hours => $1) AS at) t`, hours)
		prune(t, pool, 24*time.Hour)
		var left int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM purchase_event WHERE id = $1", hours).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left != kept {
			t.Errorf("an event of %d hours ago: %d left, want %d", hours, left, kept)
		}
	}
}

// A dump holds the log's lock for as long as it takes. Nobody may wait for that.
func TestRetentionWaitsForNobody(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM purchase_event"); err != nil {
		t.Fatal(err)
	}
	relay := outbox.NewRelay(outbox.RelayConfig{Pool: pool})
	start(t, relay.Run)
	failed := make(chan error, 1)
	r := outbox.NewRetention(outbox.RetentionConfig{Pool: pool, Keep: time.Hour})
	go func() { failed <- r.Prune(t.Context()) }()
	for i := range 20 {
		begun := time.Now()
		commit(t, pool, uuid.New(), "acct", 2)
		relay.Wake()
		eventually(t, "the event is logged", func() bool { return bounds(t, pool).Last == int64(i+1) })
		if took := time.Since(begun); took > time.Second {
			t.Errorf("event took %v", took)
		}
	}
	if err := <-failed; err == nil {
		t.Error("partitions were made under another's lock: the test shows nothing")
	}
}
