-- Invariant 1: every UNKNOWN purchase has exactly one active job, or lost it less than two
-- sweep intervals ago; no PENDING purchase is older than its grace and two sweeps.
SELECT h.id::text AS subject,
       CASE count(j.id) WHEN 0 THEN 'UNKNOWN without an active job since '
                                    || GREATEST(h.updated_at, h.next_retry)::text
                        ELSE 'UNKNOWN with ' || count(j.id) || ' active jobs' END AS detail
FROM transaction_history h
LEFT JOIN river_job j
       ON j.kind = 'reconcile_purchase'
      AND j.args ->> 'transaction_id' = h.id::text
      AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')
WHERE h.status = 'UNKNOWN'
GROUP BY h.id
HAVING count(j.id) > 1
    OR (count(j.id) = 0
        AND GREATEST(h.updated_at, h.next_retry)
            <= now() - 2 * make_interval(secs => @sweep::double precision))
UNION ALL
SELECT id::text, 'PENDING since ' || created_at::text
FROM transaction_history
WHERE status = 'PENDING'
  AND created_at < now() - make_interval(secs => @grace::double precision)
                         - 2 * make_interval(secs => @sweep::double precision)
LIMIT @most;
