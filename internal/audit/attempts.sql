-- Invariant 5: all attempts of a purchase carry its own broker key, every replay the
-- hash of its own request, and no two purchases share a key.
SELECT h.id::text AS subject,
       CASE WHEN b.broker_key <> h.broker_key
            THEN b.call || ' under the key ' || b.broker_key || ', its own is ' || h.broker_key
            ELSE b.call || ' sent a request that is not the purchase''s' END AS detail
FROM broker_attempt b
JOIN transaction_history h ON h.id = b.transaction_id
WHERE b.broker_key <> h.broker_key
   OR (b.call = 'replay' AND b.request_hash IS DISTINCT FROM h.request_hash)
UNION ALL
SELECT min(id::text), 'shares the broker key ' || broker_key || ' with ' || (count(*) - 1) || ' more'
FROM transaction_history
GROUP BY broker_key
HAVING count(*) > 1
LIMIT @most;
