-- name: InsertMatch :exec
INSERT INTO statement_match (broker) VALUES (@broker) ON CONFLICT DO NOTHING;

-- name: AcquireMatch :one
-- Gives the caller the match of a broker that is due; no row while another process has it.
UPDATE statement_match
SET lease        = lease + 1,
    leased_until = now() + make_interval(secs => @seconds::double precision)
WHERE broker = @broker
  AND due_at <= now()
  AND (leased_until IS NULL OR leased_until <= now())
RETURNING lease, matched_from, matched_until, failures, now()::timestamptz AS now;

-- name: RenewMatch :execrows
-- Keeps a lease, and moves the watermark if one is given. No row: the lease was lost.
UPDATE statement_match
SET leased_until  = now() + make_interval(secs => @seconds::double precision),
    matched_from  = COALESCE(matched_from, sqlc.narg(matched_from)),
    matched_until = GREATEST(matched_until, sqlc.narg(matched_until))
WHERE broker = @broker AND lease = @lease AND leased_until > now();

-- name: ReleaseMatch :exec
UPDATE statement_match
SET leased_until = NULL,
    due_at       = now() + make_interval(secs => @wait::double precision),
    failures     = @failures
WHERE broker = @broker AND lease = @lease;

-- name: Now :one
SELECT now()::timestamptz;

-- name: PurchasesBetween :many
-- Ids are UUIDv7, so a range of ids is a range of creation times.
SELECT id, broker_key, status, symbol, quantity, limit_price, notional, currency, cost, filled_quantity,
       broker_order_id, created_at, settled_at
FROM transaction_history
WHERE id >= @first::uuid AND id < @last::uuid AND broker = @broker;

-- name: PurchasesByKey :many
SELECT id, broker_key, status, symbol, quantity, limit_price, notional, currency, cost, filled_quantity,
       broker_order_id, created_at, settled_at
FROM transaction_history
WHERE id >= @first::uuid AND id < @last::uuid AND broker = @broker AND broker_key = ANY (@keys::text[]);

-- name: PurchasesByReplay :many
-- The purchases of orders that replays placed, which may be much younger than the purchase.
SELECT id, broker_key, status, symbol, quantity, limit_price, notional, currency, cost, filled_quantity,
       broker_order_id, created_at, settled_at
FROM transaction_history
WHERE broker = @broker
  AND id = ANY (ARRAY(SELECT a.transaction_id FROM broker_attempt a
                      WHERE a.call = 'replay' AND a.broker_key = ANY (@keys::text[])));

-- name: DeferPurchases :exec
INSERT INTO statement_deferred (transaction_id, order_ref, broker)
SELECT unnest(@ids::uuid[]), '', @broker
ON CONFLICT DO NOTHING;

-- name: DeferOrders :exec
-- The newest version of a listed order counts.
INSERT INTO statement_deferred (transaction_id, order_ref, broker, listed)
SELECT unnest(@ids::uuid[]), unnest(@refs::text[]), @broker, unnest(@listed::text[])
ON CONFLICT (transaction_id, order_ref) DO UPDATE SET listed = EXCLUDED.listed;

-- name: DeferredPurchases :many
SELECT transaction_id FROM statement_deferred WHERE broker = @broker AND order_ref = '';

-- name: NamedUnknown :many
-- UNKNOWN purchases that the list has named and that have not been made due for it.
SELECT DISTINCT d.transaction_id
FROM statement_deferred d
JOIN transaction_history h ON h.id = d.transaction_id
WHERE d.broker = @broker AND d.listed IS NOT NULL AND NOT d.expedited AND h.status = 'UNKNOWN'
LIMIT @batch;

-- name: MarkExpedited :exec
UPDATE statement_deferred SET expedited = true WHERE transaction_id = ANY (@ids::uuid[]) AND listed IS NOT NULL;

-- name: RipePurchases :many
-- Deferred purchases that have been final for long enough.
SELECT h.id, h.broker_key, h.status, h.symbol, h.quantity, h.limit_price, h.notional, h.currency, h.cost,
       h.filled_quantity, h.broker_order_id, h.created_at, h.settled_at
FROM statement_deferred d
JOIN transaction_history h ON h.id = d.transaction_id
WHERE d.broker = @broker AND d.order_ref = '' AND h.settled_at < @before::timestamptz
LIMIT @batch;

-- name: DeferredOrders :many
SELECT transaction_id, listed FROM statement_deferred
WHERE transaction_id = ANY (@ids::uuid[]) AND listed IS NOT NULL;

-- name: ForgetDeferred :exec
DELETE FROM statement_deferred WHERE transaction_id = ANY (@ids::uuid[]);
