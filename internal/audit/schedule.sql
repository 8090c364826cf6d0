-- Invariant 8: every UNKNOWN purchase will be checked: next_retry is no further ahead than
-- the longest wait, it has an active job in a queue that workers serve, the job is due when
-- the purchase is, and the purchase is not past its maximum age. What awaits the sweep,
-- whose job is missing, is invariant 1's.
WITH broker AS (
    SELECT unnest(@brokers::text[])                    AS name,
           unnest(@max_ages::double precision[])       AS max_age,
           unnest(@longest_waits::double precision[])  AS longest_wait,
           unnest(@call_timeouts::double precision[])  AS call_timeout
), purchase AS (
    SELECT h.*,
           make_interval(secs => COALESCE(k.max_age, (SELECT max(max_age) FROM broker)))           AS max_age,
           make_interval(secs => COALESCE(k.longest_wait, (SELECT max(longest_wait) FROM broker))) AS longest_wait,
           make_interval(secs => COALESCE(k.call_timeout, (SELECT max(call_timeout) FROM broker))) AS call_timeout
    FROM transaction_history h
    LEFT JOIN broker k ON k.name = h.broker
    WHERE h.status = 'UNKNOWN'
)
SELECT h.id::text AS subject, breach.detail
FROM purchase h
LEFT JOIN LATERAL (
    SELECT min(j.scheduled_at) AS scheduled_at,
           bool_or(j.queue = ANY (@queues::text[])) AS served,
           min(j.queue) AS queue,
           bool_or(j.state = 'running') AS running
    FROM river_job j
    WHERE j.kind = 'reconcile_purchase'
      AND j.args ->> 'transaction_id' = h.id::text
      AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
    HAVING count(*) > 0
) job ON true
CROSS JOIN LATERAL (VALUES
    (h.next_retry > now() + h.longest_wait,
     'next_retry is ' || h.next_retry || ', further ahead than the longest wait'),
    (NOT job.served,
     'its job is in the queue ' || job.queue || ', which no worker serves'),
    (NOT job.running
     AND job.scheduled_at > GREATEST(h.next_retry, now()) + make_interval(secs => @slack::double precision),
     'its job is due at ' || job.scheduled_at || ', the purchase at ' || h.next_retry),
    -- While a send may be in flight the limit waits for its outcome.
    (GREATEST(h.unknown_since + h.max_age, h.send_until + h.call_timeout)
     < now() - 2 * make_interval(secs => @sweep::double precision),
     'UNKNOWN since ' || h.unknown_since || ', past the maximum age')
) AS breach (broken, detail)
WHERE breach.broken
LIMIT @most;
