-- Invariant 2: an account's balances are the sum of what moved them.
WITH moved AS (
    SELECT account_id,
           COALESCE(sum(hold) FILTER (WHERE status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW')), 0) AS held,
           COALESCE(sum(cost) FILTER (WHERE status = 'COMPLETED'), 0)                              AS paid
    FROM transaction_history
    GROUP BY account_id
), given AS (
    SELECT account_id, sum(amount) AS amount FROM deposit GROUP BY account_id
), balance AS (
    SELECT a.*,
           COALESCE(g.amount, 0) AS given,
           COALESCE(m.held, 0)   AS held,
           COALESCE(m.paid, 0)   AS paid
    FROM account a
    LEFT JOIN given g ON g.account_id = a.id
    LEFT JOIN moved m ON m.account_id = a.id
)
SELECT b.id AS subject, breach.detail
FROM balance b
CROSS JOIN LATERAL (VALUES
    (b.deposited <> b.available + b.reserved + b.spent,
     'deposited ' || b.deposited || ' is not available ' || b.available || ' + reserved ' || b.reserved
     || ' + spent ' || b.spent),
    (b.deposited <> b.given,
     'deposited ' || b.deposited || ', but its deposits sum to ' || b.given),
    (b.reserved <> b.held,
     'reserved ' || b.reserved || ', but its open purchases reserve ' || b.held),
    (b.spent <> b.paid,
     'spent ' || b.spent || ', but its completed purchases cost ' || b.paid)
) AS breach (broken, detail)
WHERE breach.broken
ORDER BY b.id
LIMIT @most;
