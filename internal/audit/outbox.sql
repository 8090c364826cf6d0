-- Invariant 9: no event waits in the outbox for a minute; the log's ids are unique and
-- increase with the time of logging.
SELECT o.transaction_id::text AS subject, 'its event of ' || o.occurred_at || ' is still in the outbox' AS detail
FROM outbox o
WHERE o.occurred_at < now() - interval '1 minute'
UNION ALL
SELECT e.id::text,
       CASE WHEN e.id = e.last_id THEN 'event id given twice'
            ELSE 'event logged at ' || e.logged_at || ', the one before at ' || e.last_logged_at END
FROM (
    SELECT id, logged_at,
           lag(id)        OVER (ORDER BY id, logged_at) AS last_id,
           lag(logged_at) OVER (ORDER BY id, logged_at) AS last_logged_at
    FROM purchase_event
) e
WHERE e.id = e.last_id OR e.logged_at < e.last_logged_at
LIMIT @most;
