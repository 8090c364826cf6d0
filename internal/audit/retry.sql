-- Invariant 3: next_retry is set exactly where the status is UNKNOWN.
SELECT id::text AS subject,
       status || CASE WHEN next_retry IS NULL THEN ' without a next_retry' ELSE ' with a next_retry' END AS detail
FROM transaction_history
WHERE (next_retry IS NOT NULL) <> (status = 'UNKNOWN')
LIMIT @most;
