-- name: JobOfPurchase :one
-- The newest of a purchase's jobs, for the link from the console to River's page.
SELECT id FROM river_job
WHERE kind = 'reconcile_purchase' AND args ->> 'transaction_id' = @purchase_id::text
ORDER BY id DESC
LIMIT 1;
