-- name: InsertFindings :many
-- A discrepancy that is known, open or closed, is left out.
INSERT INTO statement_finding (id, broker, kind, subject, broker_key, transaction_id, order_id, detail)
SELECT unnest(@ids::uuid[]), @broker, unnest(@kinds::text[]), unnest(@subjects::text[]), unnest(@keys::text[]),
       NULLIF(unnest(@purchases::uuid[]), '00000000-0000-0000-0000-000000000000'),
       NULLIF(unnest(@orders::text[]), ''), unnest(@details::text[])
ON CONFLICT (broker, kind, md5(subject)) DO NOTHING
RETURNING *;

-- name: ListFindings :many
SELECT * FROM statement_finding
WHERE id < @before::uuid
  AND (sqlc.narg(kind)::text IS NULL OR kind = sqlc.narg(kind)::text)
  AND (sqlc.narg(open)::boolean IS NULL OR (closed_at IS NULL) = sqlc.narg(open)::boolean)
ORDER BY id DESC
LIMIT @page;

-- name: ListOpenFindings :many
SELECT * FROM statement_finding
WHERE id < @before::uuid
  AND closed_at IS NULL
  AND (sqlc.narg(kind)::text IS NULL OR kind = sqlc.narg(kind)::text)
  AND (sqlc.narg(broker)::text IS NULL OR broker = sqlc.narg(broker)::text)
ORDER BY id DESC
LIMIT @page;

-- name: FindingByID :one
SELECT * FROM statement_finding WHERE id = $1;

-- name: CloseFinding :execrows
UPDATE statement_finding SET closed_at = now(), note = @note::text, closed_by = @actor::text
WHERE id = @id AND closed_at IS NULL;

-- name: MarkAlerted :many
-- Open findings that no alert has reported yet.
UPDATE statement_finding SET alerted_at = now()
WHERE closed_at IS NULL AND alerted_at IS NULL AND broker = @broker
RETURNING *;

-- name: CountOpenFindings :one
SELECT count(*) FROM statement_finding WHERE closed_at IS NULL;
