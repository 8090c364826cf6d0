package sql_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sql"
)

func TestThreeMigratorsAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := sql.Migrate(t.Context(), url); err != nil {
				t.Errorf("migrate: %v", err)
			}
		})
	}
	wg.Wait()
	pool := open(t, url)
	if err := sql.CheckVersion(t.Context(), pool); err != nil {
		t.Errorf("check version: %v", err)
	}
}

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Another application in the same database may use goose, too.
func TestAnotherApplicationsVersionsAreLeftAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	pool := open(t, url)
	exec(t, pool, `CREATE TABLE goose_db_version (id serial PRIMARY KEY, version_id bigint NOT NULL,
		is_applied boolean NOT NULL, tstamp timestamp DEFAULT now());
		INSERT INTO goose_db_version (version_id, is_applied) SELECT v, true FROM generate_series(0, 4) AS v`)
	if err := sql.CheckVersion(t.Context(), pool); !errors.Is(err, sql.ErrVersion) {
		t.Errorf("check before the migration: %v, want ErrVersion", err)
	}
	if err := sql.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := sql.CheckVersion(t.Context(), pool); err != nil {
		t.Errorf("check: %v", err)
	}
	if n := count(t, pool, "SELECT count(*) FROM goose_db_version"); n != 5 {
		t.Errorf("the other application has %d versions, had 5", n)
	}
}

// Nothing is created in a database where a table of ours would be in another's way.
func TestAnotherApplicationsTablesAreRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	pool := open(t, url)
	exec(t, pool, "CREATE TABLE account (name text)")
	if err := sql.Migrate(t.Context(), url); !errors.Is(err, sql.ErrForeign) {
		t.Errorf("error is %v, want ErrForeign", err)
	}
	if n := count(t, pool, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); n != 1 {
		t.Errorf("%d tables, want the other application's alone", n)
	}
}

// Another application's River goes on working while Holdfast's indexes are made.
func TestMigratingBlocksNoOtherRiver(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	if err := sql.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool := open(t, url)
	exec(t, pool, `DROP INDEX river_job_transaction_idx, river_job_alert_idx;
		DELETE FROM holdfast_schema_version WHERE version_id = 6`)
	// A job that is being written: CREATE INDEX would wait for it, and all others behind it.
	writer, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const insert = "INSERT INTO river_job (kind, args, max_attempts) VALUES ('k', '{}', 1)"
	if _, err := writer.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- sql.Migrate(t.Context(), url) }()
	for count(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()") == 0 {
		select {
		case err := <-migrated:
			t.Fatalf("migrated without waiting for the writer: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	exec(t, pool, "SET lock_timeout = '2s'; "+insert)
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

func TestMigratesWhateverTheDatabasesDefaults(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t)
	pool := open(t, url)
	exec(t, pool, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		EXECUTE format('ALTER DATABASE %I SET statement_timeout = 1', current_database());
	END $$`)
	if err := sql.Migrate(t.Context(), url); err != nil {
		t.Error(err)
	}
}

// An upgrade of the C library may change the order of text in any other collation, and with
// it break a unique index.
func TestIndexedTextComparesByBytes(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Query(t.Context(), `
		SELECT a.attrelid::regclass::text || '.' || a.attname
		FROM pg_index i
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		JOIN pg_class c ON c.oid = a.attrelid AND c.relnamespace = 'public'::regnamespace
		WHERE a.atttypid = 'text'::regtype AND a.attcollation <> '"C"'::regcollation AND c.relname NOT LIKE 'river%'`)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(columns) > 0 {
		t.Errorf("columns without collation C: %v (%v)", columns, err)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, statements string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, query string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOtherVersionsAreRefused(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, change string }{
		{"Newer", "INSERT INTO holdfast_schema_version (version_id, is_applied) VALUES (99999, true)"},
		{"Older", "DELETE FROM holdfast_schema_version WHERE version_id = (SELECT max(version_id) FROM holdfast_schema_version)"},
		{"OlderRiver", "DELETE FROM river_migration WHERE version = (SELECT max(version) FROM river_migration)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if _, err := pool.Exec(t.Context(), c.change); err != nil {
				t.Fatal(err)
			}
			if err := sql.CheckVersion(t.Context(), pool); !errors.Is(err, sql.ErrVersion) {
				t.Errorf("error is %v, want ErrVersion", err)
			}
		})
	}
	empty := open(t, pgtest.Empty(t))
	if err := sql.CheckVersion(t.Context(), empty); !errors.Is(err, sql.ErrVersion) {
		t.Errorf("an empty database: %v, want ErrVersion", err)
	}
	var tables int
	if err := empty.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("the question made %d tables (%v)", tables, err)
	}
}

const aPurchase = `INSERT INTO transaction_history
    (id, account_id, idempotency_key, fingerprint, symbol, quantity, limit_price, currency, hold,
     broker, broker_key, broker_request, request_hash)
    VALUES (gen_random_uuid(), 'a', gen_random_uuid()::text, '', 'AAPL', 1, 1, 'USD', 1, 'http', 'k', '', '')`

// TestWrongStatesAreImpossible tries what the constraints are there to refuse.
func TestWrongStatesAreImpossible(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, try, constraint string }{
		{"UnknownWithoutRetry", "UPDATE transaction_history SET status = 'UNKNOWN', version = 2, reason = 'timeout'", "next_retry_check"},
		{"RetryWithoutUnknown", "UPDATE transaction_history SET next_retry = now()", "next_retry_check"},
		{"NoSuchStatus", "UPDATE transaction_history SET status = 'DONE', version = 2, reason = 'x'", "status_check"},
		{"PendingAgain", "UPDATE transaction_history SET version = 2", "version_check"},
		{"FinalWithoutEvidence", "UPDATE transaction_history SET status = 'REJECTED', version = 2, reason = 'x', settled_at = now()", "final_check"},
		{"CompletedWithoutCost", "UPDATE transaction_history SET status = 'COMPLETED', version = 2, evidence = 'reply', settled_at = now()", "cost_check"},
		{"ReviewWithoutReason", "UPDATE transaction_history SET status = 'MANUAL_REVIEW', version = 2", "reason_check"},
		{"QuantityAndNotional", "UPDATE transaction_history SET notional = 5", "order_check"},
		{"MoneyFromNowhere", "UPDATE account SET available = available + 1", "sum_check"},
		{"Overdrawn", "UPDATE account SET available = available - 11, spent = spent + 11", "available_check"},
		{"ReservedBelowZero", "UPDATE account SET reserved = -1, available = available + 1", "amounts_check"},
		{"DepositOfNothing", "INSERT INTO deposit (id, account_id, amount, actor) VALUES (gen_random_uuid(), 'a', 0, 'x')", "amount_check"},
	}
	pool := pgtest.New(t)
	for _, set := range []string{
		"INSERT INTO account (id, currency, available, deposited) VALUES ('a', 'USD', 10, 10)", aPurchase,
	} {
		if _, err := pool.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			refused(t, pool, c.try, c.constraint)
		})
	}
}

func refused(t *testing.T, pool *pgxpool.Pool, try, constraint string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), try)
		return err
	})
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || !strings.HasSuffix(pgErr.ConstraintName, constraint) {
		t.Errorf("error is %v, want a breach of %s", err, constraint)
	}
}

func TestOneOrderOneKeyOnePurchase(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, set := range []string{
		"INSERT INTO account (id, currency, available, deposited) VALUES ('a', 'USD', 10, 10)", aPurchase, aPurchase,
	} {
		if _, err := pool.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, pool, "UPDATE transaction_history SET broker_order_id = '1'", "broker_order_id_idx")
	refused(t, pool, "UPDATE transaction_history SET idempotency_key = 'k'", "idempotency_key")
}
