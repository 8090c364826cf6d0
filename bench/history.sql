-- $1 completed purchases over $2 accounts, the ones after the first $3 of $4 that are
-- spread over the last year, with their money. Of the last week the events are still kept.
WITH made AS (
    INSERT INTO transaction_history (
        id, account_id, idempotency_key, fingerprint, status, version, symbol, quantity, limit_price, currency, hold,
        cost, filled_quantity, evidence, broker, broker_key, broker_request, request_hash, broker_order_id,
        broker_status_code, broker_body, place_result, place_status_code, place_duration_ms,
        send_ended_at, created_at, updated_at, settled_at
    )
    SELECT id, 'bench-' || i % $2::integer, 'old-' || i, sha256(int8send(i)), 'COMPLETED', 2, 'AAPL', 10, 25.00, 'USD', 250.00,
           250.00, 10, 'reply', 'http', 'hf-' || id,
           convert_to('{"client_order_id":"hf-' || id || '","account":"bench-' || i % $2::integer
               || '","symbol":"AAPL","side":"buy","quantity":"10","limit_price":"25.00","notional":null,"currency":"USD"}', 'UTF8'),
           sha256(int8send(i)), 'o-hf-' || id,
           201, '{"order_id":"o-hf-' || id || '","client_order_id":"hf-' || id || '","status":"completed"}',
           'accepted', 201, 3, at, at, at, at
    FROM (
        SELECT i, at, encode(overlay(uuid_send(gen_random_uuid())
                   PLACING substring(int8send((extract(epoch FROM at) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 'hex')::uuid AS id
        FROM (
            SELECT i, now() - interval '1 year' + (interval '1 year' - interval '1 hour') * ((i - $3::bigint) / $4::double precision) AS at
            FROM generate_series($3::bigint + 1, $3::bigint + $1::bigint) i
        ) dated
    ) numbered
    RETURNING id, account_id, cost, settled_at
), told AS (
    INSERT INTO outbox (transaction_id, account_id, version, status, previous_status, occurred_at)
    SELECT id, account_id, 2, 'COMPLETED', 'PENDING', settled_at FROM made WHERE settled_at > now() - interval '7 days'
)
UPDATE account a SET available = available - m.cost, spent = spent + m.cost
FROM (SELECT account_id, sum(cost) AS cost FROM made GROUP BY account_id) m
WHERE a.id = m.account_id;
