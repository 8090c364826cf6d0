-- Invariant 12: every stored request has its hash; and no final status is contradicted by
-- an attempt, unless a note says so.
WITH attempt AS (
    SELECT transaction_id, call, result FROM broker_attempt
    UNION ALL
    SELECT id, 'place', place_result FROM transaction_history WHERE place_result = 'accepted' AND status = 'REJECTED'
)
SELECT id::text AS subject, 'its request does not have its hash' AS detail
FROM transaction_history
WHERE request_hash <> sha256(broker_request)
UNION ALL
SELECT h.id::text, h.status || ', but a ' || a.call || ' was ' || a.result || ', without a note'
FROM attempt a
JOIN transaction_history h ON h.id = a.transaction_id
WHERE ((h.status = 'REJECTED' AND a.result = 'accepted')
       OR (h.status = 'COMPLETED' AND a.call = 'lookup' AND a.result = 'rejected'))
  AND NOT EXISTS (SELECT FROM purchase_note n WHERE n.transaction_id = h.id AND n.code = 'contradiction')
LIMIT @most;
