-- name: SelectReconcilable :many
-- What a bulk reconciliation touches, oldest first.
SELECT id, version, status FROM transaction_history
WHERE status = @status::text
  AND status IN ('UNKNOWN', 'MANUAL_REVIEW')
  AND (sqlc.narg(account_id)::text IS NULL OR account_id = sqlc.narg(account_id)::text)
  AND (sqlc.narg(reason)::text IS NULL OR reason = sqlc.narg(reason)::text)
  AND updated_at <= now() - make_interval(secs => @older_than::double precision)
  AND id > @after::uuid
ORDER BY id
LIMIT @batch;

-- name: ManyDueNow :many
-- In order, so that two operators do not wait for each other in a circle.
WITH locked AS (
    SELECT t.id
    FROM transaction_history t
    WHERE t.id = ANY (@ids::uuid[]) AND t.status = @unknown::text
    ORDER BY t.id
    FOR NO KEY UPDATE
)
UPDATE transaction_history h
SET next_retry = now(),
    updated_at = now()
WHERE h.id = ANY (ARRAY(SELECT l.id FROM locked l)) AND h.status = @unknown::text
RETURNING h.id;

-- name: OrderDueNow :many
-- A broker's event: the next pass is due at once. A pass in progress keeps its lease. The
-- status is written out, because the partial index on the key must serve every plan.
UPDATE transaction_history
SET next_retry = now(),
    updated_at = now()
WHERE broker_key = @broker_key AND status = 'UNKNOWN' AND next_retry > now()
RETURNING id;

-- name: InsertNotes :exec
INSERT INTO purchase_note (transaction_id, code, detail, actor)
SELECT unnest(@ids::uuid[]), @code, @detail, @actor;

-- name: InsertNoteOnce :execrows
-- A note that is not repeated.
INSERT INTO purchase_note (transaction_id, code, detail, actor)
SELECT @id::uuid, @code::text, @detail::text, @actor
WHERE NOT EXISTS (
    SELECT FROM purchase_note n WHERE n.transaction_id = @id::uuid AND n.code = @code::text AND n.detail = @detail::text
);

-- name: Switches :many
SELECT name, broker, paused FROM switch;

-- name: SetSwitch :exec
INSERT INTO switch (name, broker, paused, note, actor)
VALUES (@name, @broker, @paused, @note, @actor)
ON CONFLICT ON CONSTRAINT switch_pkey
DO UPDATE SET paused = EXCLUDED.paused, note = EXCLUDED.note, actor = EXCLUDED.actor, changed_at = now();
