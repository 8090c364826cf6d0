-- name: ListPurchases :many
-- Newest first. Ids are UUIDv7, so a page starts behind an id. The four lists are queries
-- of their own so that each one's plan, made once, uses its index.
SELECT * FROM transaction_history
WHERE (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status)::text)
  AND id < @before::uuid
ORDER BY id DESC
LIMIT @page;

-- name: ListAccountPurchases :many
SELECT * FROM transaction_history
WHERE account_id = @account_id
  AND (sqlc.narg(status)::text IS NULL OR status = sqlc.narg(status)::text)
  AND created_at <= @before_at
  AND (created_at, id) < (@before_at, @before::uuid)
ORDER BY created_at DESC, id DESC
LIMIT @page;

-- name: PurchaseCreatedAt :one
-- Of one account: a cursor must not reveal whether another account's purchase exists.
SELECT created_at FROM transaction_history WHERE id = @id AND account_id = @account_id;

-- name: ListOpenPurchases :many
SELECT * FROM transaction_history
WHERE status = @status::text
  AND status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW')
  AND (sqlc.narg(account_id)::text IS NULL OR account_id = sqlc.narg(account_id)::text)
  AND id < @before::uuid
ORDER BY id DESC
LIMIT @page;

-- name: ListRejectedPurchases :many
SELECT * FROM transaction_history
WHERE status = 'REJECTED'
  AND id < @before::uuid
ORDER BY id DESC
LIMIT @page;

-- name: Transitions :many
SELECT * FROM purchase_transition WHERE transaction_id = $1 ORDER BY version LIMIT 10000;

-- name: Attempts :many
-- Without the broker's answers, of 64 kB each: a purchase that the broker is processing
-- has thousands of lookups.
SELECT call, started_at, duration_ms, result, reason, status_code
FROM broker_attempt WHERE transaction_id = $1 ORDER BY id LIMIT 10000;

-- name: Notes :many
SELECT * FROM purchase_note WHERE transaction_id = $1 ORDER BY id LIMIT 10000;

-- name: OpenCounts :many
SELECT status, count(*) AS purchases FROM transaction_history
WHERE status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW')
GROUP BY status;

-- name: FinalCounts :one
-- Counted on narrow indexes: the rows of a long history are wide.
SELECT ((SELECT count(*) FROM transaction_history)
      - (SELECT count(*) FROM transaction_history WHERE status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW'))
      - (SELECT count(*) FROM transaction_history WHERE status = 'REJECTED'))::bigint AS completed,
       (SELECT count(*) FROM transaction_history WHERE status = 'REJECTED')::bigint AS rejected;

-- name: SummaryAges :one
SELECT COALESCE(EXTRACT(EPOCH FROM now() - min(next_retry) FILTER (WHERE next_retry <= now())), 0)::double precision AS oldest_due,
       COALESCE(EXTRACT(EPOCH FROM now() - min(unknown_since)), 0)::double precision AS oldest_unknown
FROM transaction_history
WHERE status = 'UNKNOWN';

-- name: UnknownByBroker :many
SELECT broker, currency, count(*) AS purchases,
       count(*) FILTER (WHERE reason = 'processing') AS working, sum(hold)::numeric AS reserved
FROM transaction_history
WHERE status = 'UNKNOWN'
GROUP BY broker, currency;

-- name: PassesTotal :one
SELECT count(*) FROM broker_attempt WHERE call = 'lookup';

-- name: ReviewsTotal :one
SELECT count(*) FROM alert WHERE type = 'purchase.manual_review';
