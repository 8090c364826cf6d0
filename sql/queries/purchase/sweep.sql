-- The sweeps go through their rows by id, so that one that fails does not keep the others
-- from their turn. Each purchase is held to the limits of its own broker; those of a broker
-- that is not served, to the first one's.

-- name: StalePending :many
-- PENDING past its grace whose call can no longer be in flight: its process died, or lost
-- the database, before the outcome was stored.
SELECT id, version FROM transaction_history
WHERE status = 'PENDING'
  AND created_at < clock_timestamp() - make_interval(secs => @grace::double precision)
  AND (send_until IS NULL
       OR send_until < clock_timestamp() - make_interval(secs =>
              (@call_timeouts::double precision[])[COALESCE(array_position(@brokers::text[], broker), 1)]))
  AND id > @after::uuid
ORDER BY id
LIMIT @batch
FOR UPDATE SKIP LOCKED;

-- name: PastLimits :many
-- UNKNOWN that has reached its maximum age or number of passes, whoever serves its broker
-- and whether or not a pass could run. While a send may be in flight it is left for the
-- next sweep.
SELECT id, version,
       unknown_since <= clock_timestamp() - make_interval(secs =>
           (@max_ages::double precision[])[COALESCE(array_position(@brokers::text[], broker), 1)]) AS too_old
FROM transaction_history
WHERE status = 'UNKNOWN'
  AND (unknown_since <= clock_timestamp() - make_interval(secs =>
           (@max_ages::double precision[])[COALESCE(array_position(@brokers::text[], broker), 1)])
       OR attempts >= (@max_attempts::integer[])[COALESCE(array_position(@brokers::text[], broker), 1)])
  AND (send_until IS NULL
       OR send_until < clock_timestamp() - make_interval(secs =>
              (@call_timeouts::double precision[])[COALESCE(array_position(@brokers::text[], broker), 1)]))
  AND id > @after::uuid
ORDER BY id
LIMIT @batch
FOR UPDATE SKIP LOCKED;

-- name: Orphans :many
-- UNKNOWN without an active job. A scalar subquery, and no NOT EXISTS: that is planned as
-- a join, and while the statistics do not know of the jobs yet, which is the start of an
-- outage, as one that reads all jobs for each purchase.
SELECT h.id FROM transaction_history h
WHERE h.status = 'UNKNOWN'
  AND h.id > @after::uuid
  AND (SELECT j.id FROM river_job j
       WHERE j.kind = 'reconcile_purchase'
         AND j.args ->> 'transaction_id' = h.id::text
         AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
       LIMIT 1) IS NULL
ORDER BY h.id
LIMIT @batch
FOR UPDATE OF h SKIP LOCKED;

-- name: Overdue :one
-- Checks that nobody has made for so long that something is wrong, and the longest wait.
SELECT count(*) AS purchases,
       COALESCE(EXTRACT(EPOCH FROM now() - min(next_retry)), 0)::double precision AS longest
FROM transaction_history
WHERE status = 'UNKNOWN' AND next_retry < now() - make_interval(secs => @tolerance::double precision);

-- name: Unserved :many
-- Open purchases of brokers other than those served.
SELECT broker, count(*) AS purchases FROM transaction_history
WHERE status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW') AND broker <> ALL (@served::text[])
GROUP BY broker
ORDER BY broker;
