-- What stands in the database at a scrape. Served by transaction_history_open_idx and
-- transaction_history_unknown_retry_idx: its cost grows with what is open, not with the
-- history.
SELECT count(*) FILTER (WHERE status = 'UNKNOWN')       AS unknown,
       count(*) FILTER (WHERE status = 'PENDING')       AS pending,
       count(*) FILTER (WHERE status = 'MANUAL_REVIEW') AS review,
       COALESCE(GREATEST(EXTRACT(EPOCH FROM now() - min(next_retry) FILTER (WHERE status = 'UNKNOWN')), 0), 0)::double precision
                                                        AS oldest_due,
       COALESCE(GREATEST(EXTRACT(EPOCH FROM now() - min(unknown_since) FILTER (WHERE status = 'UNKNOWN')), 0), 0)::double precision
                                                        AS oldest_unknown,
       COALESCE((SELECT GREATEST(EXTRACT(EPOCH FROM clock_timestamp() - occurred_at), 0)
                 FROM outbox ORDER BY id LIMIT 1), 0)::double precision
                                                        AS event_lag
FROM transaction_history
WHERE status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW');
