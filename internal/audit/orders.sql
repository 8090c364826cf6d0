-- Invariant 6: one broker order id belongs to one purchase.
SELECT broker_order_id AS subject,
       'order of ' || broker || ' belongs to ' || string_agg(id::text, ', ' ORDER BY id) AS detail
FROM transaction_history
WHERE broker_order_id IS NOT NULL
GROUP BY broker, broker_order_id
HAVING count(*) > 1
LIMIT @most;
