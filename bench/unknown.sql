-- $1 UNKNOWN purchases over $2 accounts, all due at $3, as an outage of the broker leaves
-- them: the money held, the event told, one job each that sleeps until then.
WITH made AS (
    INSERT INTO transaction_history (
        id, account_id, idempotency_key, fingerprint, status, version, symbol, quantity, limit_price, currency, hold,
        reason, broker, broker_key, broker_request, request_hash, place_result, place_reason, place_duration_ms,
        attempts, next_retry, unknown_since, send_ended_at, created_at, updated_at
    )
    SELECT id, 'bench-' || i % $2::integer, 'due-' || i, '\x00', 'UNKNOWN', 2, 'AAPL', 10, 25.00, 'USD', 250.00,
           'timeout', 'http', 'hf-' || id, '{}', sha256('{}'), 'uncertain', 'timeout', 5000,
           1, $3::timestamptz, now() - interval '1 minute', now() - interval '1 minute', now() - interval '1 minute', now()
    FROM (
        SELECT i, encode(overlay(uuid_send(gen_random_uuid())
                   PLACING substring(int8send((extract(epoch FROM now()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 'hex')::uuid AS id
        FROM generate_series(1, $1::integer) i
    ) numbered
    RETURNING id, account_id, hold
), held AS (
    UPDATE account a SET available = available - m.hold, reserved = reserved + m.hold
    FROM (SELECT account_id, sum(hold) AS hold FROM made GROUP BY account_id) m
    WHERE a.id = m.account_id
), told AS (
    INSERT INTO outbox (transaction_id, account_id, version, status, previous_status, reason)
    SELECT id, account_id, 2, 'UNKNOWN', 'PENDING', 'timeout' FROM made
)
INSERT INTO river_job (kind, args, state, queue, priority, max_attempts, metadata, scheduled_at)
SELECT 'reconcile_purchase', jsonb_build_object('transaction_id', id), 'scheduled'::river_job_state, 'default', 1, 30000, '{"snoozes": 1}'::jsonb, $3
FROM made;
