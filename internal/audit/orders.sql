-- Invariant 6: one broker order id belongs to one purchase, and every attempt that received
-- an order id received its purchase's: unless the purchase went to review as a mismatch, or
-- a note says that the answer contradicts it.
SELECT broker_order_id AS subject,
       'order of ' || broker || ' belongs to ' || string_agg(id::text, ', ' ORDER BY id) AS detail
FROM transaction_history
WHERE broker_order_id IS NOT NULL
GROUP BY broker, broker_order_id
HAVING count(*) > 1
UNION ALL
SELECT h.id::text,
       'a ' || b.call || ' received order ' || b.order_id || ', the purchase has ' || COALESCE(h.broker_order_id, 'none')
FROM broker_attempt b
JOIN transaction_history h ON h.id = b.transaction_id
WHERE b.order_id <> ''
  AND b.order_id IS DISTINCT FROM h.broker_order_id
  AND NOT EXISTS (SELECT FROM purchase_note n WHERE n.transaction_id = h.id AND n.code = 'contradiction')
  AND NOT EXISTS (SELECT FROM purchase_transition t WHERE t.transaction_id = h.id AND t.reason = 'mismatch')
LIMIT @most;
