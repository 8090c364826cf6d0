-- name: RunJobsNow :execrows
-- Makes jobs that wait run now; one that runs or has ended is left alone. A cancel that
-- was asked for an earlier attempt must not end the next one.
UPDATE river_job
SET state        = 'available',
    scheduled_at = now(),
    metadata     = metadata - 'cancel_attempted_at'
WHERE id = ANY (@ids::bigint[])
  AND (state IN ('pending', 'retryable', 'scheduled') OR (state = 'available' AND scheduled_at > now()));

-- name: CompleteJobs :exec
-- Ends running jobs with the transaction of their effect, as River's own JobCompleteTx
-- does for one. One that was taken away or runs no longer is left alone.
UPDATE river_job
SET state        = 'completed',
    finalized_at = now()
WHERE id = ANY (@ids::bigint[]) AND state = 'running';

-- name: DeferJobs :exec
-- Makes running jobs wait, with the transaction that defers their passes, as a snooze does
-- afterwards: no attempt is used. River's scheduler looks every 5 seconds, so a job that
-- waits for less is available already, as after a snooze.
UPDATE river_job j
SET state        = (CASE WHEN d.wait <= 5 THEN 'available' ELSE 'scheduled' END)::river_job_state,
    scheduled_at = now() + make_interval(secs => d.wait),
    attempt      = GREATEST(j.attempt - 1, 0)
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@waits::double precision[]) AS wait) d
WHERE j.id = d.id AND j.state = 'running';

-- name: ReleaseDeadJobs :execrows
-- Jobs that have run for longer than any job may: their process died. The row is locked
-- and looked at in one statement, so a job that ends meanwhile, or that another process
-- has released and started, is not touched. The lost run costs no attempt.
WITH dead AS (
    SELECT id FROM river_job
    WHERE state = 'running'
      AND kind IN ('reconcile_purchase', 'deliver_alert')
      AND attempted_at < now() - make_interval(secs => @rescue_after::double precision)
    ORDER BY id
    LIMIT @batch
    FOR UPDATE SKIP LOCKED
)
UPDATE river_job j
SET state        = 'available',
    scheduled_at = now(),
    attempt      = GREATEST(j.attempt - 1, 0),
    metadata     = j.metadata - 'cancel_attempted_at'
FROM dead
WHERE j.id = dead.id;

-- name: RescheduleDriftedJobs :execrows
-- Jobs whose purchase is due while they wait for a time long past, as without a leader,
-- or far off, as after a stale attempt's word or with a process whose clock is wrong.
-- The job is sought row by row: a join may be planned over jobs that the statistics do
-- not know of yet, and then compares all with all.
WITH strayed AS (
    SELECT s.id
    FROM transaction_history h
    CROSS JOIN LATERAL (
        SELECT j.id FROM river_job j
        WHERE j.kind = 'reconcile_purchase'
          AND j.args ->> 'transaction_id' = h.id::text
          AND (j.state IN ('pending', 'retryable', 'scheduled') OR (j.state = 'available' AND j.scheduled_at > now()))
          AND (j.scheduled_at < now() - make_interval(secs => @slack::double precision)
               OR j.scheduled_at > now() + make_interval(secs => @slack::double precision))
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    ) s
    WHERE h.status = 'UNKNOWN' AND h.next_retry <= now()
    ORDER BY h.next_retry
    LIMIT @batch
)
UPDATE river_job j
SET state        = 'available',
    scheduled_at = now(),
    metadata     = j.metadata - 'cancel_attempted_at'
FROM strayed
WHERE j.id = strayed.id;

-- name: UndeliveredAlerts :many
-- Alerts that nobody has been told of and no live job will tell.
SELECT a.id FROM alert a
WHERE a.delivered_at IS NULL
  AND a.abandoned_at IS NULL
  AND (SELECT j.id FROM river_job j
       WHERE j.kind = 'deliver_alert'
         AND j.args ->> 'alert_id' = a.id::text
         AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
       LIMIT 1) IS NULL
ORDER BY a.created_at
LIMIT @batch
FOR UPDATE OF a SKIP LOCKED;

-- name: PruneTickets :execrows
DELETE FROM stream_ticket WHERE expires_at < now();

-- name: PruneSessions :execrows
DELETE FROM operator_session WHERE expires_at < now();

-- name: PausedQueues :many
-- River UI can pause a queue; nothing runs in it then.
SELECT name FROM river_queue WHERE paused_at IS NOT NULL;
