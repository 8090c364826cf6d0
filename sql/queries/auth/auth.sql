-- name: InsertKey :one
INSERT INTO api_key (id, prefix, hash, scope, account_id, expires_at)
VALUES (@id, @prefix, @hash, @scope, sqlc.narg(account_id),
        now() + make_interval(secs => sqlc.narg(lifetime)::double precision))
RETURNING *;

-- name: EnsureKey :exec
-- A key whose secret is known already; the one that is there stays as it is.
INSERT INTO api_key (id, prefix, hash, scope, account_id)
VALUES (@id, @prefix, @hash, @scope, sqlc.narg(account_id))
ON CONFLICT ON CONSTRAINT api_key_hash_key DO NOTHING;

-- name: KeyByHash :one
SELECT * FROM api_key WHERE hash = $1;

-- name: ListKeys :many
SELECT * FROM api_key ORDER BY created_at, id LIMIT $1;

-- name: RevokeKey :one
-- A second revocation keeps the first one's time.
UPDATE api_key SET revoked_at = COALESCE(revoked_at, now()) WHERE id = $1 RETURNING *;

-- name: ActiveKeyByHash :one
SELECT * FROM api_key
WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: ActiveKeyByID :one
SELECT * FROM api_key
WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: ActiveKeysAmong :many
-- The keys of all open streams, every other second.
SELECT id FROM api_key
WHERE id = ANY(@ids::text[]) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: ActiveKeysByHash :many
-- Every process asks this each second about the keys in use. Only keys that it returns
-- stay cached: a revoked, expired or deleted one does not, whenever that was committed.
SELECT * FROM api_key
WHERE hash = ANY(@hashes::bytea[]) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: TouchKeys :exec
-- Last use is coarse: it moves at most once a minute.
UPDATE api_key SET last_used_at = now()
WHERE id = ANY(@ids::text[])
  AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute');

-- name: InsertTicket :one
INSERT INTO stream_ticket (hash, key_id, key_hash, scope, account_id, principal_expires_at, expires_at)
VALUES (@hash, @key_id, sqlc.narg(key_hash), @scope, sqlc.narg(account_id), sqlc.narg(principal_expires_at),
        now() + make_interval(secs => @lifetime::double precision))
RETURNING expires_at;

-- name: RedeemTicket :one
-- One use: of two that come at once, one finds the row gone.
DELETE FROM stream_ticket WHERE hash = $1 AND expires_at > now() RETURNING *;

-- name: InsertSession :one
INSERT INTO operator_session (hash, key_id, key_hash, expires_at)
VALUES (@hash, @key_id, @key_hash, now() + make_interval(secs => @lifetime::double precision))
RETURNING expires_at;

-- name: ActiveSession :one
SELECT * FROM operator_session WHERE hash = $1 AND expires_at > now();

-- name: DeleteSession :exec
DELETE FROM operator_session WHERE hash = $1;

-- name: DeleteExpiredTickets :exec
DELETE FROM stream_ticket WHERE expires_at <= now();

-- name: DeleteExpiredSessions :exec
DELETE FROM operator_session WHERE expires_at <= now();
