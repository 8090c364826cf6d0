package audit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/audit"
	"holdfast/internal/testkit/pgtest"
)

// params keep the intervals long: whatever a test writes is young, unless it says so.
var params = audit.Params{
	PendingGrace: time.Minute, SweepInterval: time.Minute, EventRetention: 7 * 24 * time.Hour,
	Brokers: []audit.Broker{
		{Name: "http", Timeout: 5 * time.Second, KeyRetention: 24 * time.Hour, MaxAge: 12 * time.Hour, LongestWait: 2 * time.Hour},
		{Name: "patient", Timeout: time.Minute, KeyRetention: 48 * time.Hour, MaxAge: 36 * time.Hour, LongestWait: 3 * time.Hour},
	},
	Queues: []string{"default"},
}

// The purchases of the consistent story that every test starts from.
const (
	completed = "00000000-0000-7000-8000-000000000001"
	rejected  = "00000000-0000-7000-8000-000000000002"
	unknown   = "00000000-0000-7000-8000-000000000003"
	review    = "00000000-0000-7000-8000-000000000004"
	pending   = "00000000-0000-7000-8000-000000000005"

	pendingAlert = "00000000-0000-7000-8000-0000000000a1"
)

// consistent is one purchase per status with everything that belongs to it. The completed
// one cost less than it held; one event still waits in the outbox.
const consistent = `
INSERT INTO account (id, currency, available, reserved, spent, deposited)
VALUES ('acct-1', 'USD', 680, 300, 20, 1000), ('acct-2', 'EUR', 5, 0, 0, 5);
INSERT INTO deposit (id, account_id, amount, actor)
VALUES (gen_random_uuid(), 'acct-1', 900, 'test'), (gen_random_uuid(), 'acct-1', 100, 'test'),
       (gen_random_uuid(), 'acct-2', 5, 'test');
INSERT INTO transaction_history (id, account_id, idempotency_key, fingerprint, status, version, symbol, notional,
    currency, hold, cost, reason, evidence, broker, broker_key, broker_request, request_hash, broker_order_id,
    next_retry, unknown_since, settled_at)
VALUES
    ('` + completed + `', 'acct-1', 'k1', '', 'COMPLETED', 3, 'AAPL', 100, 'USD', 100, 20, NULL, 'lookup', 'http', 'bk1', 'r1', sha256('r1'), 'o1', NULL, now(), now()),
    ('` + rejected + `', 'acct-1', 'k2', '', 'REJECTED', 2, 'AAPL', 100, 'USD', 100, NULL, 'closed', 'reply', 'http', 'bk2', 'r2', sha256('r2'), NULL, NULL, NULL, now()),
    ('` + unknown + `', 'acct-1', 'k3', '', 'UNKNOWN', 4, 'AAPL', 100, 'USD', 100, NULL, 'timeout', NULL, 'http', 'bk3', 'r3', sha256('r3'), NULL, now(), now(), NULL),
    ('` + review + `', 'acct-1', 'k4', '', 'MANUAL_REVIEW', 3, 'AAPL', 100, 'USD', 100, NULL, 'age_exceeded', NULL, 'http', 'bk4', 'r4', sha256('r4'), 'o4', NULL, now(), NULL),
    ('` + pending + `', 'acct-1', 'k5', '', 'PENDING', 1, 'AAPL', 100, 'USD', 100, NULL, NULL, NULL, 'http', 'bk5', 'r5', sha256('r5'), NULL, NULL, NULL, NULL);
INSERT INTO purchase_transition (transaction_id, version, previous_status, status, actor)
VALUES ('` + completed + `', 2, 'PENDING', 'UNKNOWN', 'client'), ('` + completed + `', 3, 'UNKNOWN', 'COMPLETED', 'worker'),
       ('` + unknown + `', 2, 'PENDING', 'UNKNOWN', 'client'), ('` + unknown + `', 3, 'UNKNOWN', 'MANUAL_REVIEW', 'worker'),
       ('` + unknown + `', 4, 'MANUAL_REVIEW', 'UNKNOWN', 'operator:x'),
       ('` + review + `', 2, 'PENDING', 'UNKNOWN', 'sweep'), ('` + review + `', 3, 'UNKNOWN', 'MANUAL_REVIEW', 'worker');
INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status, occurred_at, logged_at)
VALUES (1, '` + completed + `', 'acct-1', 2, 'UNKNOWN', 'PENDING', now(), now()),
       (2, '` + rejected + `', 'acct-1', 2, 'REJECTED', 'PENDING', now(), now()),
       (3, '` + unknown + `', 'acct-1', 2, 'UNKNOWN', 'PENDING', now(), now()),
       (4, '` + unknown + `', 'acct-1', 3, 'MANUAL_REVIEW', 'UNKNOWN', now(), now()),
       (5, '` + unknown + `', 'acct-1', 4, 'UNKNOWN', 'MANUAL_REVIEW', now(), now()),
       (6, '` + review + `', 'acct-1', 2, 'UNKNOWN', 'PENDING', now(), now()),
       (7, '` + review + `', 'acct-1', 3, 'MANUAL_REVIEW', 'UNKNOWN', now(), now());
INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
VALUES ('` + completed + `', 'acct-1', 3, 'COMPLETED', 'UNKNOWN');
INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash)
VALUES ('` + completed + `', 'lookup', 'bk1', NULL), ('` + completed + `', 'replay', 'bk1', sha256('r1'));
INSERT INTO river_job (kind, args, state, max_attempts, queue)
VALUES ('reconcile_purchase', '{"transaction_id":"` + unknown + `"}', 'running', 25, 'default'),
       ('reconcile_purchase', '{"transaction_id":"` + completed + `"}', 'running', 25, 'default'),
       ('deliver_alert', '{"alert_id":"` + pendingAlert + `"}', 'retryable', 25, 'alerts');
INSERT INTO alert (id, type, transaction_id, version, data, delivered_at)
VALUES (gen_random_uuid(), 'purchase.manual_review', '` + unknown + `', 3, '{}', now()),
       ('` + pendingAlert + `', 'purchase.manual_review', '` + review + `', 3, '{}', NULL);
`

// loose drops what keeps a sane program from writing nonsense.
const loose = `
ALTER TABLE account DROP CONSTRAINT account_sum_check;
ALTER TABLE transaction_history DROP CONSTRAINT transaction_history_next_retry_check;
DROP INDEX transaction_history_broker_order_id_idx;
`

func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	exec(t, pool, consistent)
	exec(t, pool, loose)
	return pool
}

func exec(t *testing.T, pool *pgxpool.Pool, statements string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statements); err != nil {
		t.Fatalf("exec: %v", err)
	}
}

func run(t *testing.T, pool *pgxpool.Pool) audit.Report {
	t.Helper()
	report, err := audit.Run(context.Background(), pool, params)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestConsistentHistory(t *testing.T) {
	t.Parallel()
	report := run(t, setup(t))
	if !report.OK || len(report.Breaches) != 0 || len(report.AwaitingSweep) != 0 {
		t.Errorf("report = %+v", report)
	}
}

func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	if report := run(t, pgtest.New(t)); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

// Each corruption is one breach, under its invariant's number, by its subject's name.
func TestBreaches(t *testing.T) {
	t.Parallel()
	const job = `INSERT INTO river_job (kind, args, state, max_attempts, queue)
		VALUES ('reconcile_purchase', '{"transaction_id":"` + unknown + `"}', 'scheduled', 25, 'default')`
	for name, test := range map[string]struct {
		corrupt   string
		invariant int
		subject   string
		detail    string
	}{
		"UnknownWithoutJob": {`DELETE FROM river_job WHERE kind = 'reconcile_purchase';
			UPDATE transaction_history SET updated_at = now() - interval '3 minutes', next_retry = now() - interval '3 minutes'
			WHERE id = '` + unknown + `'`, 1, unknown, "without an active job"},
		"UnknownWithDeadJob": {`UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE kind = 'reconcile_purchase';
			UPDATE transaction_history SET updated_at = now() - interval '3 minutes', next_retry = now() - interval '3 minutes'
			WHERE id = '` + unknown + `'`, 1, unknown, "without an active job"},
		"UnknownWithTwoJobs": {job, 1, unknown, "2 active jobs"},
		"StalePending": {`UPDATE transaction_history SET created_at = now() - interval '4 minutes'
			WHERE id = '` + pending + `'`, 1, pending, "PENDING since"},
		"SumOfBalances": {`UPDATE account SET available = 681 WHERE id = 'acct-1'`, 2, "acct-1", "is not available 681"},
		"Deposits":      {`UPDATE account SET deposited = 6, available = 6 WHERE id = 'acct-2'`, 2, "acct-2", "deposits sum to 5"},
		"Reserved":      {`UPDATE account SET reserved = 200, available = 780 WHERE id = 'acct-1'`, 2, "acct-1", "open purchases reserve 300"},
		"Spent":         {`UPDATE account SET spent = 120, available = 580 WHERE id = 'acct-1'`, 2, "acct-1", "completed purchases cost 20"},
		"RetryOfFinal": {`UPDATE transaction_history SET next_retry = now()
			WHERE id = '` + rejected + `'`, 3, rejected, "REJECTED with a next_retry"},
		"UnknownWithoutRetry": {`UPDATE transaction_history SET next_retry = NULL
			WHERE id = '` + unknown + `'`, 3, unknown, "UNKNOWN without a next_retry"},
		"NoEvents":       {`DELETE FROM purchase_event WHERE id = 2`, 4, rejected, "no event of version 2"},
		"FirstEventLost": {`DELETE FROM purchase_event WHERE id = 1`, 4, completed, "no event of version 2"},
		"LastEventLost":  {`DELETE FROM outbox`, 4, completed, "its last event has 2"},
		"Gap":            {`DELETE FROM purchase_event WHERE id = 4`, 4, unknown, "a gap"},
		"EventTwice": {`INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
			VALUES ('` + rejected + `', 'acct-1', 2, 'REJECTED', 'PENDING')`, 4, rejected, "1 events more"},
		"LastStatus": {`UPDATE purchase_event SET status = 'COMPLETED' WHERE id = 2`, 4, rejected, "its last event says COMPLETED"},
		"Diagram": {`UPDATE purchase_event SET status = 'MANUAL_REVIEW' WHERE id = 6;
			UPDATE purchase_event SET previous_status = 'MANUAL_REVIEW', status = 'MANUAL_REVIEW' WHERE id = 7`,
			4, review, "goes from PENDING to MANUAL_REVIEW"},
		"BrokenThread": {`UPDATE purchase_event SET previous_status = 'UNKNOWN', status = 'MANUAL_REVIEW' WHERE id = 5;
			UPDATE transaction_history SET status = 'MANUAL_REVIEW', next_retry = NULL WHERE id = '` + unknown + `'`,
			4, unknown, "the one before ended in MANUAL_REVIEW"},
		"BirthAsEvent": {`INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
			VALUES ('` + pending + `', 'acct-1', 1, 'PENDING', 'PENDING')`, 4, pending, "an event of version 1"},
		"ForeignEvent": {`INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
			VALUES ('00000000-0000-7000-8000-00000000000f', 'acct-1', 2, 'REJECTED', 'PENDING')`,
			4, "00000000-0000-7000-8000-00000000000f", "does not exist"},
		"ForeignKeyOfBroker": {`UPDATE broker_attempt SET broker_key = 'bk9' WHERE call = 'lookup'`, 5, completed, "lookup under the key bk9"},
		"OtherRequest":       {`UPDATE broker_attempt SET request_hash = 'h9' WHERE call = 'replay'`, 5, completed, "replay sent a request"},
		"SharedBrokerKey":    {`UPDATE transaction_history SET broker_key = 'bk2' WHERE id = '` + review + `'`, 5, rejected, "shares the broker key"},
		"ReplayAfterKeyRetention": {`UPDATE transaction_history SET created_at = now() - interval '25 hours'
			WHERE id = '` + completed + `'`, 7, completed, "after the key retention"},
		"ReplayAfterMaximumAge": {`UPDATE purchase_transition SET at = now() - interval '13 hours'
			WHERE transaction_id = '` + completed + `' AND version = 2`, 7, completed, "after the maximum age"},
		"ReplayAfterValidUntil": {`UPDATE transaction_history SET valid_until = now() - interval '1 minute'
			WHERE id = '` + completed + `'`, 7, completed, "after valid_until"},
		"ReplayForAnUnknownBroker": {`UPDATE transaction_history SET broker = 'other', created_at = now() - interval '49 hours'
			WHERE id = '` + completed + `'`, 7, completed, "after the key retention"},
		"ReplayOfFinal": {`UPDATE transaction_history SET settled_at = now() - interval '1 minute'
			WHERE id = '` + completed + `'`, 7, completed, "after the purchase was final"},
		"RetryFarAhead": {`UPDATE transaction_history SET next_retry = '2099-01-01'
			WHERE id = '` + unknown + `'`, 8, unknown, "further ahead than the longest wait"},
		"JobInUnservedQueue": {`UPDATE river_job SET queue = 'other' WHERE args ->> 'transaction_id' = '` + unknown + `'`,
			8, unknown, "queue other, which no worker serves"},
		"JobDueTooLate": {`UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour'
			WHERE args ->> 'transaction_id' = '` + unknown + `'`, 8, unknown, "its job is due at"},
		"PastMaximumAge": {`UPDATE transaction_history SET unknown_since = now() - interval '12 hours 3 minutes'
			WHERE id = '` + unknown + `'`, 8, unknown, "past the maximum age"},
		"EventNotRelayed": {`UPDATE outbox SET occurred_at = now() - interval '61 seconds'`, 9, completed, "still in the outbox"},
		"EventIDTwice": {`UPDATE purchase_event SET id = 6, logged_at = logged_at + interval '1 second' WHERE id = 7`,
			9, "6", "given twice"},
		"EventLoggedBeforeThePreviousOne": {`UPDATE purchase_event SET logged_at = logged_at - interval '1 second' WHERE id = 7`,
			9, "7", "the one before at"},
		"HoldBelowTheOrder": {`UPDATE transaction_history SET notional = 100.01 WHERE id = '` + pending + `'`,
			10, pending, "its order is worth 100.01"},
		"HoldNotRoundedUp": {`UPDATE transaction_history SET notional = NULL, quantity = 3, limit_price = 33.335
			WHERE id = '` + pending + `'`, 10, pending, "its order is worth 100.01"},
		"Overrun":            {`UPDATE account SET overrun = 1000000 WHERE id = 'acct-2'`, 10, "acct-2", "costs exceeded their holds by 0"},
		"ReviewWithoutAlert": {`DELETE FROM alert WHERE id = '` + pendingAlert + `'`, 11, review, "no alert of its review at version 3"},
		"AlertWithoutJob":    {`DELETE FROM river_job WHERE kind = 'deliver_alert'`, 11, review, "has no active job"},
		"RequestWithoutItsHash": {`UPDATE transaction_history SET broker_request = 'x' WHERE id = '` + rejected + `'`,
			12, rejected, "does not have its hash"},
		"RejectedButAccepted": {`INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash, result)
			VALUES ('` + rejected + `', 'place', 'bk2', sha256('r2'), 'accepted')`, 12, rejected, "a place was accepted"},
		"RejectedThoughPlaced": {`UPDATE transaction_history SET place_result = 'accepted' WHERE id = '` + rejected + `'`,
			12, rejected, "a place was accepted"},
		"CompletedButRejected": {`UPDATE broker_attempt SET result = 'rejected' WHERE call = 'lookup'`,
			12, completed, "a lookup was rejected"},
		"SequenceBehind": {`SELECT setval('outbox_id_seq', 1, false)`, 13, "outbox_id_seq", "the highest value of outbox.id is 1"},
		"OtherOrder": {`UPDATE broker_attempt SET order_id = 'o9' WHERE call = 'lookup'`,
			6, completed, "a lookup received order o9, the purchase has o1"},
		"ForgottenOrder": {`INSERT INTO broker_attempt (transaction_id, call, broker_key, order_id) VALUES ('` + unknown + `', 'lookup', 'bk3', 'o3')`,
			6, unknown, "the purchase has none"},
		"SharedOrder": {`UPDATE transaction_history SET broker_order_id = 'o1' WHERE id = '` + review + `'`, 6, "o1", review},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := setup(t)
			exec(t, pool, test.corrupt)
			report := run(t, pool)
			if report.OK || len(report.Breaches) == 0 {
				t.Fatal("not found")
			}
			for _, b := range report.Breaches {
				if b.Invariant != test.invariant || b.Subject != test.subject {
					t.Errorf("breach = %+v, want only invariant %d of %s", b, test.invariant, test.subject)
				}
			}
			if !strings.Contains(details(report), test.detail) {
				t.Errorf("details %q do not say %q", details(report), test.detail)
			}
		})
	}
}

func details(report audit.Report) string {
	var all []string
	for _, b := range report.Breaches {
		all = append(all, b.Detail)
	}
	return strings.Join(all, "\n")
}

func TestJobLostLatelyAwaitsTheSweep(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `DELETE FROM river_job WHERE kind = 'reconcile_purchase'`)
	report := run(t, pool)
	if !report.OK || len(report.AwaitingSweep) != 1 || report.AwaitingSweep[0] != unknown {
		t.Errorf("report = %+v", report)
	}
}

// A job that waits for a retry far ahead is lost as lately as that.
func TestJobLostBeforeItIsDueAwaitsTheSweep(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `DELETE FROM river_job WHERE kind = 'reconcile_purchase'; UPDATE transaction_history
		SET updated_at = now() - interval '1 hour', next_retry = now() + interval '1 minute' WHERE id = '`+unknown+`'`)
	if report := run(t, pool); !report.OK || len(report.AwaitingSweep) != 1 {
		t.Errorf("report = %+v", report)
	}
}

func TestEventsOlderThanRetentionMayBeGone(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `DELETE FROM purchase_event WHERE id IN (1, 2, 3, 4);
		DELETE FROM broker_attempt WHERE call = 'replay';
		UPDATE purchase_transition SET at = now() - interval '8 days'
		WHERE (transaction_id, version) IN (('`+completed+`', 2), ('`+unknown+`', 2), ('`+unknown+`', 3));
		UPDATE transaction_history SET settled_at = now() - interval '8 days' WHERE id = '`+rejected+`'`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

// What contradicts a final status is no breach once a note says so.
func TestNotedContradiction(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE broker_attempt SET result = 'rejected' WHERE call = 'lookup';
		INSERT INTO purchase_note (transaction_id, code, detail, actor) VALUES ('`+completed+`', 'contradiction', '', 'worker')`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

// A purchase that an operator sent back was replayed in its second life, long after it had
// become UNKNOWN first.
func TestReplayOfAReopenedPurchase(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE purchase_transition SET at = now() - interval '23 hours' WHERE transaction_id = '`+unknown+`' AND version = 2;
		INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash) VALUES ('`+unknown+`', 'replay', 'bk3', sha256('r3'))`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

// Each broker has its own limits.
func TestLimitsAreTheBrokers(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE transaction_history SET broker = 'patient', created_at = now() - interval '25 hours' WHERE id = '`+completed+`';
		UPDATE transaction_history SET broker = 'patient', unknown_since = now() - interval '20 hours' WHERE id = '`+unknown+`'`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

// The limit of a purchase that may just be sent waits for the outcome.
func TestPastMaximumAgeWithASendInFlight(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE transaction_history SET unknown_since = now() - interval '12 hours 3 minutes',
		send_until = now() - interval '1 second' WHERE id = '`+unknown+`'`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

func TestAnotherOrderInReviewAsAMismatch(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE purchase_transition SET reason = 'mismatch' WHERE transaction_id = '`+review+`' AND version = 3;
		INSERT INTO broker_attempt (transaction_id, call, broker_key, order_id) VALUES ('`+review+`', 'lookup', 'bk4', 'o9')`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

func TestAbandonedAlert(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `DELETE FROM river_job WHERE kind = 'deliver_alert'; UPDATE alert SET abandoned_at = now() WHERE id = '`+pendingAlert+`'`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

func TestHoldIsRoundedUpToTheCurrency(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE transaction_history SET notional = NULL, quantity = 3, limit_price = 33.331 WHERE id = '`+pending+`';
		UPDATE transaction_history SET notional = NULL, quantity = 3, limit_price = 33.1, currency = 'JPY' WHERE id = '`+completed+`'`)
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

// Not a breach: Holdfast's indexes compare bytes.
func TestCollationMismatchIsAWarning(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `UPDATE pg_database SET datcollversion = '0.1' WHERE datname = current_database()`)
	report := run(t, pool)
	if !report.OK || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "created with 0.1") {
		t.Errorf("report = %+v", report)
	}
}

func TestAuditWritesNothing(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	exec(t, pool, `ALTER DATABASE `+database(t, pool)+` SET default_transaction_read_only = on`)
	pool.Reset()
	if report := run(t, pool); !report.OK {
		t.Errorf("report = %+v", report)
	}
}

func database(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var name string
	if err := pool.QueryRow(t.Context(), `SELECT quote_ident(current_database())`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}
