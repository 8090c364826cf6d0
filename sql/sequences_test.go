package sql_test

import (
	"errors"
	"strings"
	"testing"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sql"
)

func TestSequencesOfANewDatabase(t *testing.T) {
	t.Parallel()
	if err := sql.CheckSequences(t.Context(), pgtest.New(t)); err != nil {
		t.Error(err)
	}
}

// As after a restore of the tables alone. Every numbered table is covered.
func TestSequencesBehindTheirColumns(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `
		ALTER TABLE broker_attempt DROP CONSTRAINT broker_attempt_transaction_fkey;
		ALTER TABLE purchase_note DROP CONSTRAINT purchase_note_transaction_fkey;
		INSERT INTO broker_attempt (transaction_id, call, broker_key) SELECT gen_random_uuid(), 'lookup', 'k' FROM generate_series(1, 3);
		INSERT INTO purchase_note (transaction_id, code, detail, actor) VALUES (gen_random_uuid(), 'c', 'd', 'a');
		INSERT INTO outbox (transaction_id, account_id, version, status, previous_status) VALUES (gen_random_uuid(), 'a', 2, 'REJECTED', 'PENDING');
		INSERT INTO river_job (kind, args, max_attempts) VALUES ('k', '{}', 1);
		DO $$ DECLARE s regclass; BEGIN
			FOR s IN SELECT oid FROM pg_class WHERE relkind = 'S' LOOP PERFORM setval(s, 1, false); END LOOP;
		END $$`)
	behind, err := sql.SequencesBehind(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	// river_notification is empty.
	if n := count(t, pool, "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relname <> 'river_notification_id_seq'"); len(behind) != n {
		t.Errorf("%d sequences are found, all %d are behind: %v", len(behind), n, behind)
	}
	err = sql.CheckSequences(t.Context(), pool)
	if !errors.Is(err, sql.ErrSequence) || !strings.Contains(err.Error(), "broker_attempt_id_seq stands at 0, but the highest value of broker_attempt.id is 3") {
		t.Errorf("error: %v", err)
	}
}

// A row of another application in the same schema is none of Holdfast's business.
func TestAnotherApplicationsSequences(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, "CREATE TABLE invoice (id serial PRIMARY KEY); INSERT INTO invoice VALUES (7)")
	if err := sql.CheckSequences(t.Context(), pool); err != nil {
		t.Error(err)
	}
}
