-- name: StalePending :many
-- PENDING past its grace: its process died, or lost the database, before the outcome
-- was stored.
SELECT id, version FROM transaction_history
WHERE status = 'PENDING' AND created_at < now() - make_interval(secs => @grace::double precision)
ORDER BY id
LIMIT @batch
FOR UPDATE SKIP LOCKED;

-- name: Orphans :many
-- UNKNOWN without a live job, the longest due first. A scalar subquery, and no NOT EXISTS:
-- that is planned as a join, and where the statistics do not know of the jobs yet, which is
-- the start of an outage, as one that reads all jobs for each purchase.
SELECT h.id FROM transaction_history h
WHERE h.status = 'UNKNOWN'
  AND (SELECT j.id FROM river_job j
       WHERE j.kind = 'reconcile_purchase'
         AND j.args ->> 'transaction_id' = h.id::text
         AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
       LIMIT 1) IS NULL
ORDER BY h.next_retry
LIMIT @batch
FOR UPDATE OF h SKIP LOCKED;
