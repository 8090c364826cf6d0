-- Invariant 10: a hold is the order's value, rounded up to the currency's minor unit; an
-- account's overrun is the sum by which costs exceeded their holds.
WITH currency AS (
    SELECT unnest(@currencies::text[]) AS code, unnest(@decimals::integer[]) AS decimals
), purchase AS (
    SELECT h.id, h.hold, COALESCE(h.notional, ceil(h.quantity * h.limit_price * 10::numeric ^ c.decimals) / 10::numeric ^ c.decimals) AS value
    FROM transaction_history h
    JOIN currency c ON c.code = h.currency
), exceeded AS (
    SELECT account_id, sum(cost - hold) AS amount
    FROM transaction_history
    WHERE status = 'COMPLETED' AND cost > hold
    GROUP BY account_id
)
SELECT p.id::text AS subject, 'holds ' || p.hold || ', its order is worth ' || p.value AS detail
FROM purchase p
WHERE p.hold <> p.value
UNION ALL
SELECT a.id, 'overrun ' || a.overrun || ', but costs exceeded their holds by ' || COALESCE(e.amount, 0)
FROM account a
LEFT JOIN exceeded e ON e.account_id = a.id
WHERE a.overrun <> COALESCE(e.amount, 0)
LIMIT @most;
