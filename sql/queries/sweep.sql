-- name: StalePending :many
-- PENDING past its grace: its process died, or lost the database, before the outcome
-- was stored.
SELECT id, version FROM transaction_history
WHERE status = 'PENDING' AND created_at < now() - make_interval(secs => @grace::double precision)
ORDER BY id
LIMIT @batch
FOR UPDATE SKIP LOCKED;

-- name: Orphans :many
-- UNKNOWN without a live job, the longest due first.
SELECT h.id FROM transaction_history h
WHERE h.status = 'UNKNOWN'
  AND NOT EXISTS (
      SELECT 1 FROM river_job j
      WHERE j.kind = 'reconcile_purchase'
        AND j.args ->> 'transaction_id' = h.id::text
        AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))
ORDER BY h.next_retry
LIMIT @batch
FOR UPDATE OF h SKIP LOCKED;
