-- name: RecordPurchases :many
-- Holds the money and inserts PENDING, for one purchase or many, and returns what was
-- recorded. A purchase that is not returned was not affordable, has an account that
-- does not exist or keeps another currency, or repeats a key; nothing moved for it.
-- Accounts are locked first and in order: two batches never wait for each other in a
-- circle, and a repeat sees what the first one did.
-- Wherever a table is joined here, it is also restricted by "= ANY": a plan that was made
-- while the table was small must not read all of it when it has grown.
WITH input AS (
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
           unnest(@metadata::text[])          AS metadata,
           unnest(@brokers::text[])           AS broker,
           unnest(@broker_keys::text[])       AS broker_key,
           unnest(@broker_requests::bytea[])  AS broker_request,
           unnest(@request_hashes::bytea[])   AS request_hash
), locked AS (
    SELECT a.id, a.available, a.currency
    FROM account a
    WHERE a.id = ANY (@account_ids::text[])
    ORDER BY a.id
    FOR NO KEY UPDATE
), affordable AS (
    SELECT i.*, sum(i.hold) OVER (PARTITION BY i.account_id ORDER BY i.id) <= l.available AS enough
    FROM input i
    JOIN locked l ON l.id = i.account_id AND l.currency = i.currency
), recorded AS (
    INSERT INTO transaction_history (
        id, account_id, idempotency_key, fingerprint, symbol, quantity, limit_price, notional, currency,
        hold, metadata, broker, broker_key, broker_request, request_hash, send_until
    )
    SELECT id, account_id, idempotency_key, fingerprint, symbol,
           NULLIF(quantity, '')::numeric, NULLIF(limit_price, '')::numeric, NULLIF(notional, '')::numeric,
           currency, hold, metadata, broker, broker_key, broker_request, request_hash,
           -- The record is the first call's intent: later than this it is not sent.
           now() + make_interval(secs => @send_within::double precision)
    FROM affordable
    WHERE enough
    ON CONFLICT ON CONSTRAINT transaction_history_idempotency_key DO NOTHING
    RETURNING id, account_id, hold, created_at
), held AS (
    UPDATE account a
    SET available = a.available - r.hold,
        reserved  = a.reserved + r.hold
    FROM (SELECT account_id, sum(hold) AS hold FROM recorded GROUP BY account_id) r
    WHERE a.id = ANY (@account_ids::text[]) AND a.id = r.account_id
)
SELECT id, created_at FROM recorded;

-- name: PurchaseByKey :one
SELECT * FROM transaction_history WHERE account_id = $1 AND idempotency_key = $2;

-- name: PurchaseByID :one
SELECT * FROM transaction_history WHERE id = $1;

-- name: LockAccount :one
-- Waits for whoever writes the account's balance, and keeps others from it.
SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE;
