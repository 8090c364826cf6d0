-- name: JobOfPurchase :one
-- The newest of a purchase's jobs, for the link from the console to River's page.
SELECT id FROM river_job
WHERE kind = 'reconcile_purchase' AND args ->> 'transaction_id' = @purchase_id::text
ORDER BY id DESC
LIMIT 1;

-- name: ReservedInReview :many
-- What purchases that wait for a person hold, for the console's overview.
SELECT currency, sum(hold)::numeric AS reserved FROM transaction_history
WHERE status = 'MANUAL_REVIEW'
GROUP BY currency
ORDER BY currency;
