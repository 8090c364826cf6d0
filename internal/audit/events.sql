-- Invariant 4: a purchase's events carry the versions 2 to its present one, each once;
-- the last one's status is its present status; and each follows the diagram. An event
-- waits in the outbox or stands in the log. What is older than the retention may be
-- gone, but only from the beginning.
WITH event AS MATERIALIZED (
    SELECT transaction_id, version, status, previous_status FROM purchase_event
    UNION ALL
    SELECT transaction_id, version, status, previous_status FROM outbox
), story AS (
    SELECT e.*,
           lag(status)  OVER told AS told_status,
           lag(version) OVER told AS told_version
    FROM event e
    WINDOW told AS (PARTITION BY transaction_id ORDER BY version)
), chapter AS (
    SELECT transaction_id,
           count(*)                                  AS events,
           count(DISTINCT version)                   AS versions,
           min(version)                              AS first,
           max(version)                              AS last,
           (array_agg(status ORDER BY version DESC))[1] AS last_status
    FROM event
    GROUP BY transaction_id
), purchase AS (
    SELECT h.id, h.version, h.status, c.events, c.versions, c.first, c.last, c.last_status,
           -- The newest version that no event tells of, at the beginning: all of them
           -- where there is no event at all.
           COALESCE(c.first - 1, h.version) AS untold,
           h.settled_at, h.updated_at
    FROM transaction_history h
    LEFT JOIN chapter c ON c.transaction_id = h.id
), checked AS (
    SELECT p.*,
           p.untold >= 2
           AND COALESCE(t.at, CASE WHEN p.untold = p.version THEN COALESCE(p.settled_at, p.updated_at) END,
                        'infinity')
               > now() - make_interval(secs => @retention::double precision) AS lost
    FROM purchase p
    LEFT JOIN purchase_transition t ON t.transaction_id = p.id AND t.version = p.untold
)
SELECT k.id::text AS subject, breach.detail
FROM checked k
CROSS JOIN LATERAL (VALUES
    (k.lost, 'no event of version ' || k.untold),
    (k.events > k.versions, k.events - k.versions || ' events more than versions'),
    (k.last - k.first + 1 > k.versions, 'a gap between the events of version ' || k.first || ' and ' || k.last),
    (k.first < 2, 'an event of version ' || k.first),
    (k.last <> k.version, 'version ' || k.version || ', its last event has ' || k.last),
    (k.last = k.version AND k.last_status <> k.status, k.status || ', its last event says ' || k.last_status)
) AS breach (broken, detail)
WHERE breach.broken
UNION ALL
SELECT s.transaction_id::text,
       'version ' || s.version || ' goes from ' || s.previous_status || ' to ' || s.status
       || CASE WHEN s.told_status <> s.previous_status THEN ', the one before ended in ' || s.told_status ELSE '' END
FROM story s
WHERE NOT EXISTS (SELECT FROM status_transition d WHERE d.from_status = s.previous_status AND d.to_status = s.status)
   OR (s.version = 2) <> (s.previous_status = 'PENDING')
   OR (s.told_version = s.version - 1 AND s.told_status <> s.previous_status)
UNION ALL
SELECT c.transaction_id::text, 'events of a purchase that does not exist'
FROM chapter c
WHERE NOT EXISTS (SELECT 1 FROM transaction_history h WHERE h.id = c.transaction_id)
LIMIT @most;
