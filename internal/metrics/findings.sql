-- Open findings by broker and kind, also where there are none, and how far behind each
-- broker's match is (NULL: it never matched). Served by statement_finding_open_idx.
SELECT b.broker, k.kind, count(f.id) AS open,
       (SELECT EXTRACT(EPOCH FROM now() - m.matched_until)::double precision
        FROM statement_match m WHERE m.broker = b.broker) AS lag
FROM (SELECT unnest($1::text[]) AS broker
      UNION SELECT broker FROM statement_match
      UNION SELECT broker FROM statement_finding WHERE closed_at IS NULL) b
CROSS JOIN unnest($2::text[]) AS k (kind)
LEFT JOIN statement_finding f ON f.broker = b.broker AND f.kind = k.kind AND f.closed_at IS NULL
GROUP BY b.broker, k.kind;
