-- Invariant 11: every entry into MANUAL_REVIEW has an alert that was delivered, is being
-- delivered, or was abandoned.
SELECT t.transaction_id::text AS subject,
       CASE WHEN a.id IS NULL THEN 'no alert of its review at version ' || t.version
            ELSE 'alert ' || a.id || ' was not delivered and has no active job' END AS detail
FROM purchase_transition t
LEFT JOIN alert a ON a.transaction_id = t.transaction_id AND a.version = t.version
                 AND a.type = 'purchase.manual_review'
WHERE t.status = 'MANUAL_REVIEW'
  AND a.delivered_at IS NULL
  AND a.abandoned_at IS NULL
  AND (a.id IS NULL OR NOT EXISTS (
      SELECT FROM river_job j
      WHERE j.kind = 'deliver_alert'
        AND j.args ->> 'alert_id' = a.id::text
        AND j.state IN ('available', 'pending', 'retryable', 'running', 'scheduled')))
LIMIT @most;
