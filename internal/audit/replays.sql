-- Invariant 7: a replay begins while the broker still knows the key, while the purchase is
-- below its maximum age and before its valid_until; and a final purchase is never replayed.
-- The age counts from the last time the purchase became UNKNOWN before the replay. Of a
-- broker that the settings do not name, the longest limits apply.
WITH broker AS (
    SELECT unnest(@brokers::text[])                     AS name,
           unnest(@key_retentions::double precision[])  AS key_retention,
           unnest(@max_ages::double precision[])        AS max_age
), replay AS (
    SELECT h.id, b.started_at, h.created_at, h.valid_until, h.settled_at,
           (SELECT max(t.at) FROM purchase_transition t
            WHERE t.transaction_id = h.id AND t.status = 'UNKNOWN' AND t.at <= b.started_at) AS unknown_at,
           make_interval(secs => COALESCE(k.key_retention, (SELECT max(key_retention) FROM broker))) AS key_retention,
           make_interval(secs => COALESCE(k.max_age, (SELECT max(max_age) FROM broker)))             AS max_age
    FROM broker_attempt b
    JOIN transaction_history h ON h.id = b.transaction_id
    LEFT JOIN broker k ON k.name = h.broker
    WHERE b.call = 'replay'
)
SELECT r.id::text AS subject, 'the replay of ' || r.started_at || ' began ' || breach.detail AS detail
FROM replay r
CROSS JOIN LATERAL (VALUES
    (r.started_at > r.created_at + r.key_retention, 'after the key retention: the purchase is of ' || r.created_at),
    (r.started_at > r.unknown_at + r.max_age, 'after the maximum age: UNKNOWN since ' || r.unknown_at),
    (r.started_at > r.valid_until, 'after valid_until ' || r.valid_until),
    (r.started_at > r.settled_at, 'after the purchase was final at ' || r.settled_at)
) AS breach (broken, detail)
WHERE breach.broken
LIMIT @most;
