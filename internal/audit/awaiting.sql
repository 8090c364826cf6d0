-- UNKNOWN purchases without an active job that the sweep may not have repaired yet.
SELECT h.id::text
FROM transaction_history h
WHERE h.status = 'UNKNOWN'
  AND GREATEST(h.updated_at, h.next_retry) > now() - 2 * make_interval(secs => @sweep::double precision)
  AND NOT EXISTS (
      SELECT 1 FROM river_job j
      WHERE j.kind = 'reconcile_purchase'
        AND j.args ->> 'transaction_id' = h.id::text
        AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))
ORDER BY h.id
LIMIT @most;
