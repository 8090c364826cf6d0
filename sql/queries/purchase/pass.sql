-- The statements of one purchase take UNKNOWN as a parameter: were it written out, a plan
-- made while few are UNKNOWN would read the partial indexes, and keep doing so when many are.

-- name: ClaimPasses :many
-- Gives the caller purchases for one pass each: until the lease ends nobody else gets
-- them, and only the holder of the new claim may write. next_retry moves to the lease's
-- end, so a pass whose process dies is due again then. One that somebody is writing is
-- left out, so that the others need not wait.
WITH free AS (
    SELECT t.id
    FROM transaction_history t
    WHERE t.id = ANY (@ids::uuid[])
      AND t.broker = @broker
      AND t.status = @unknown::text
      AND t.next_retry <= now()
      AND (t.leased_until IS NULL OR t.leased_until <= now())
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE transaction_history h
SET claim        = h.claim + 1,
    leased_until = now() + make_interval(secs => @lease::double precision),
    next_retry   = now() + make_interval(secs => @lease::double precision)
WHERE h.id = ANY (ARRAY(SELECT f.id FROM free f))
RETURNING sqlc.embed(h),
          -- The ages, in seconds by the database's clock, that the pass decides by.
          EXTRACT(EPOCH FROM now() - h.unknown_since)::double precision AS unknown_age,
          EXTRACT(EPOCH FROM now() - h.sent_at)::double precision       AS sent_age,
          EXTRACT(EPOCH FROM now() - h.created_at)::double precision    AS created_age;

-- name: PassDue :one
-- Why a purchase could not be claimed: the seconds until it may be, its status, its broker.
SELECT COALESCE(EXTRACT(EPOCH FROM GREATEST(next_retry, leased_until) - now()), 0)::double precision AS due_in,
       status, broker
FROM transaction_history
WHERE id = $1;

-- name: IntendReplay :one
-- Writes down, before it is sent, that a replay will be; returns no row where the claim
-- was lost or the key's life is over.
WITH intended AS (
    UPDATE transaction_history h
    SET sent_at     = now(),
        replay_code = NULL
    WHERE h.id = @id
      AND h.status = @unknown::text
      AND h.claim = @claim::bigint
      AND h.leased_until > now()
      AND now() < h.created_at + make_interval(secs => @key_life::double precision)
    RETURNING h.id, h.broker_key, h.claim
)
INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash, claim)
SELECT id, 'replay', broker_key, @request_hash::bytea, claim FROM intended
RETURNING id;

-- name: DeferPass :one
-- Ends a pass that settled nothing. Returns no row where the claim was lost. The
-- exchange is kept in any case.
WITH deferred AS (
    UPDATE transaction_history h
    SET attempts     = h.attempts + @passes::integer,
        next_retry   = now() + make_interval(secs => @wait::double precision),
        leased_until = NULL,
        reason       = COALESCE(sqlc.narg(reason), h.reason),
        replay_code  = COALESCE(sqlc.narg(replay_code), h.replay_code),
        -- A refusal that waits to be confirmed is the purchase's answer from then on.
        broker_status_code    = CASE WHEN sqlc.narg(replay_code)::text IS NULL THEN h.broker_status_code
                                     ELSE @status_code::integer END,
        broker_body           = CASE WHEN sqlc.narg(replay_code)::text IS NULL THEN h.broker_body
                                     ELSE @answer::text END,
        broker_body_truncated = CASE WHEN sqlc.narg(replay_code)::text IS NULL THEN h.broker_body_truncated
                                     ELSE @truncated::boolean END,
        updated_at   = now()
    WHERE h.id = @id AND h.status = @unknown::text AND h.claim = @claim::bigint
    RETURNING h.*
), answered AS (
    UPDATE broker_attempt b
    SET duration_ms = @duration_ms::bigint,
        result      = @result::text,
        reason      = NULLIF(@result_reason::text, ''),
        status_code = NULLIF(@status_code::integer, 0),
        answer      = @answer::text
    WHERE b.id = @attempt_id::bigint
), attempt AS (
    INSERT INTO broker_attempt (transaction_id, call, broker_key, claim, started_at, duration_ms,
                                result, reason, status_code, answer)
    SELECT @id::uuid, 'lookup', @broker_key::text, @claim::bigint,
           now() - make_interval(secs => @took::double precision), @duration_ms::bigint,
           @result::text, NULLIF(@result_reason::text, ''), NULLIF(@status_code::integer, 0), @answer::text
    WHERE @attempt_id::bigint = 0
)
SELECT * FROM deferred;

-- name: InsertLookup :exec
-- A lookup that did not end its pass: a replay follows.
INSERT INTO broker_attempt (transaction_id, call, broker_key, claim, started_at, duration_ms,
                            result, reason, status_code, answer)
SELECT @id::uuid, 'lookup', @broker_key::text, @claim::bigint,
       now() - make_interval(secs => @took::double precision), @duration_ms::bigint,
       @result::text, NULLIF(@result_reason::text, ''), NULLIF(@status_code::integer, 0), @answer::text;

-- name: ReleaseClaim :exec
-- Gives a claim back unused: the pass is due again after the wait and did not count.
UPDATE transaction_history
SET next_retry   = now() + make_interval(secs => @wait::double precision),
    leased_until = NULL
WHERE id = @id AND status = @unknown::text AND claim = @claim;

-- name: DueNow :one
-- An operator's word on UNKNOWN: the next pass is due at once. A pass in progress keeps
-- its lease.
UPDATE transaction_history
SET next_retry = now(),
    updated_at = now()
WHERE id = @id AND status = @unknown::text
RETURNING *;
