-- name: RecordPurchases :many
-- Holds the money and inserts PENDING, for one purchase or many, and returns for each what
-- it did: recorded; repeated (the key is used); in_flight (another transaction is recording
-- this key and has not ended); no_account (it does not exist or has another currency);
-- rerouted (the account has another broker, or another name there, than the caller knew);
-- expired (its valid_until has passed); insufficient; or contended (affordable, but not
-- together with the others of this batch). Only a recorded one changes anything.
-- First each key is locked, without waiting, until the transaction has ended, its commit
-- included. Then accounts are locked, in order, so that two batches never deadlock. A
-- repeated key is left out before the INSERT, which would wait for whoever is writing that
-- purchase, with the account locked.
-- Tables that are joined are also restricted by "= ANY": a plan that was made while the
-- table was small must not read all of it when it has grown.
WITH input AS MATERIALIZED (
    SELECT unnest(@ids::uuid[])               AS id,
           unnest(@account_ids::text[])       AS account_id,
           unnest(@idempotency_keys::text[])  AS idempotency_key,
           unnest(@fingerprints::bytea[])     AS fingerprint,
           unnest(@symbols::text[])           AS symbol,
           unnest(@quantities::text[])        AS quantity,
           unnest(@limit_prices::text[])      AS limit_price,
           unnest(@notionals::text[])         AS notional,
           unnest(@currencies::text[])        AS currency,
           unnest(@holds::text[])::numeric    AS hold,
           -- As given, or empty: then ttl seconds from now, or never if that is 0.
           unnest(@valid_untils::text[])      AS valid_until,
           unnest(@ttls::double precision[])  AS ttl,
           unnest(@metadata::text[])          AS metadata,
           -- The account's own columns as the caller knew them, and what they come to.
           unnest(@routes::text[])            AS route,
           unnest(@route_accounts::text[])    AS route_account,
           unnest(@brokers::text[])           AS broker,
           unnest(@broker_accounts::text[])   AS broker_account,
           unnest(@broker_keys::text[])       AS broker_key,
           unnest(@broker_requests::bytea[])  AS broker_request,
           unnest(@request_hashes::bytea[])   AS request_hash,
           unnest(@send_withins::double precision[]) AS send_within
    -- How long to wait for a locked account; for this transaction only.
    WHERE set_config('lock_timeout', @lock_timeout::text, true) <> ''
), keyed AS MATERIALIZED (
    SELECT i.*,
           CASE WHEN i.valid_until <> '' THEN i.valid_until::timestamptz
                WHEN i.ttl > 0 THEN now() + make_interval(secs => i.ttl) END AS expires,
           row_number() OVER (PARTITION BY i.account_id, i.idempotency_key ORDER BY i.id) = 1
               AND pg_try_advisory_xact_lock(hashtextextended(i.account_id || ' ' || i.idempotency_key, 0)) AS free
    FROM input i
), locked AS (
    SELECT a.id, a.available, a.currency, a.broker, a.broker_account
    FROM account a
    WHERE a.id = ANY (ARRAY(SELECT k.account_id FROM keyed k WHERE k.free))
    ORDER BY a.id
    FOR NO KEY UPDATE
), checked AS MATERIALIZED (
    SELECT k.*, l.available,
           CASE WHEN NOT k.free THEN 'in_flight'
                WHEN l.id IS NULL THEN 'no_account'
                WHEN purchase_exists(l.id, k.idempotency_key) THEN 'repeated'
                WHEN k.route <> l.broker OR k.route_account <> l.broker_account THEN 'rerouted'
                WHEN k.expires <= now() THEN 'expired'
                WHEN k.hold > l.available THEN 'insufficient'
                ELSE 'contended' END AS outcome
    FROM keyed k
    LEFT JOIN locked l ON l.id = k.account_id AND l.currency = k.currency
), affordable AS (
    SELECT c.*, sum(c.hold) OVER (PARTITION BY c.account_id ORDER BY c.id) <= c.available AS enough
    FROM checked c
    WHERE c.outcome = 'contended'
), recorded AS (
    INSERT INTO transaction_history (
        id, account_id, idempotency_key, fingerprint, symbol, quantity, limit_price, notional, currency,
        hold, valid_until, metadata, broker, broker_account, broker_key, broker_request, request_hash,
        send_until
    )
    SELECT id, account_id, idempotency_key, fingerprint, symbol,
           NULLIF(quantity, '')::numeric, NULLIF(limit_price, '')::numeric, NULLIF(notional, '')::numeric,
           currency, hold, expires, metadata, broker, broker_account, broker_key, broker_request, request_hash,
           -- The record is the first call's intent: later than this it is not sent.
           LEAST(now() + make_interval(secs => send_within), expires)
    FROM affordable
    WHERE enough
    ON CONFLICT ON CONSTRAINT transaction_history_idempotency_key DO NOTHING
    RETURNING id, account_id, hold, valid_until
), held AS (
    UPDATE account a
    SET available = a.available - r.hold,
        reserved  = a.reserved + r.hold
    FROM (SELECT account_id, sum(hold) AS hold FROM recorded GROUP BY account_id) r
    WHERE a.id = ANY (@account_ids::text[]) AND a.id = r.account_id
)
SELECT c.id::uuid AS id, (CASE WHEN r.id IS NOT NULL THEN 'recorded' ELSE c.outcome END)::text AS outcome,
       now()::timestamptz AS recorded_at, r.valid_until
FROM checked c
LEFT JOIN recorded r ON r.id = c.id;

-- name: PurchaseByKey :one
SELECT * FROM transaction_history WHERE account_id = $1 AND idempotency_key = $2;

-- name: PurchaseByID :one
SELECT * FROM transaction_history WHERE id = $1;
