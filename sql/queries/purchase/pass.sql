-- The statements of one purchase take UNKNOWN as a parameter: were it written out, a plan
-- made while few are UNKNOWN would read the partial indexes, and keep doing so when many are.

-- name: ClaimPasses :many
-- Gives the caller purchases of the brokers that it serves for one pass each: until the
-- lease ends nobody else gets them, and only the holder of the new claim may write. next_retry moves to the lease's
-- end, so a pass whose process dies is due again then. One that somebody is writing is
-- left out, so that the others need not wait. While passes are paused nothing is claimed.
-- A lease that ended on its own is one of a pass that stored nothing: its lookup may have
-- found the order, so the proof of absence starts again.
WITH free AS (
    SELECT t.id
    FROM transaction_history t
    WHERE t.id = ANY (@ids::uuid[])
      AND t.broker = ANY (@brokers::text[])
      AND t.status = @unknown::text
      AND t.next_retry <= now()
      AND (t.leased_until IS NULL OR t.leased_until <= now())
      AND NOT EXISTS (SELECT FROM switch s WHERE s.name = 'passes' AND s.broker IN ('', t.broker) AND s.paused)
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE transaction_history h
SET claim        = h.claim + 1,
    absences     = CASE WHEN h.leased_until IS NULL THEN h.absences ELSE 0 END,
    absent_at    = CASE WHEN h.leased_until IS NULL THEN h.absent_at END,
    leased_until = now() + make_interval(secs => @lease::double precision),
    next_retry   = now() + make_interval(secs => @lease::double precision)
WHERE h.id = ANY (ARRAY(SELECT f.id FROM free f))
RETURNING sqlc.embed(h),
          -- The ages, in seconds by the database's clock, that the pass decides by.
          EXTRACT(EPOCH FROM clock_timestamp() - h.unknown_since)::double precision AS unknown_age,
          EXTRACT(EPOCH FROM clock_timestamp() - h.created_at)::double precision    AS created_age,
          -- Since the last send ended. One whose outcome was not stored ended, at the
          -- latest, the broker timeout after its deadline.
          EXTRACT(EPOCH FROM clock_timestamp() - COALESCE(GREATEST(
              h.send_ended_at,
              h.send_until + make_interval(secs => (@call_timeouts::double precision[])[array_position(@brokers::text[], h.broker)])
          ), h.created_at))::double precision AS sent_age,
          -- Since the last counted "not found"; 0 if there is none.
          COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - h.absent_at), 0)::double precision AS absent_age,
          -- Until valid_until; at most 30 years.
          LEAST(EXTRACT(EPOCH FROM h.valid_until - clock_timestamp()), 1e9)::double precision AS valid_for;

-- name: PurchaseBrokers :many
-- Which broker each purchase was placed with. It never changes.
SELECT id, broker FROM transaction_history WHERE id = ANY (@ids::uuid[]);

-- name: PassDue :one
-- Why a purchase could not be claimed: the seconds until it may be, its status, its
-- broker, a pause.
SELECT COALESCE(EXTRACT(EPOCH FROM GREATEST(next_retry, leased_until) - now()), 0)::double precision AS due_in,
       status, broker,
       EXISTS (SELECT FROM switch s WHERE s.name = 'passes' AND s.broker IN ('', transaction_history.broker) AND s.paused) AS paused
FROM transaction_history
WHERE id = $1;

-- name: IntendReplay :one
-- Writes down, before it is sent, that a replay will be, and until when its first byte may
-- leave: everything that permits the send, as one deadline. Returns no row if the claim
-- was lost, the deadline has passed or passes are paused. The deadline is bounded by the
-- start of this statement, which is before the switch was read: a statement that waited
-- for a lock permits nothing that a pause meanwhile forbids.
-- send_within is counted from now by the database's clock; the sender must count it from
-- before it sent this statement.
WITH intended AS (
    UPDATE transaction_history h
    SET send_until  = LEAST(now() + make_interval(secs => @send_window::double precision),
                            h.leased_until - make_interval(secs => @call_timeout::double precision),
                            h.created_at + make_interval(secs => @key_life::double precision),
                            h.unknown_since + make_interval(secs => @max_age::double precision),
                            h.valid_until),
        absences    = 0,
        absent_at   = NULL,
        replay_code = NULL
    WHERE h.id = @id
      AND h.status = @unknown::text
      AND h.claim = @claim::bigint
      AND clock_timestamp() < LEAST(now() + make_interval(secs => @send_window::double precision),
                                    h.leased_until - make_interval(secs => @call_timeout::double precision),
                                    h.created_at + make_interval(secs => @key_life::double precision),
                                    h.unknown_since + make_interval(secs => @max_age::double precision),
                                    h.valid_until)
      AND NOT EXISTS (SELECT FROM switch s WHERE s.name = 'passes' AND s.broker IN ('', h.broker) AND s.paused)
    RETURNING h.id, h.broker_key, h.claim, h.send_until
), attempt AS (
    INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash, claim)
    SELECT id, 'replay', broker_key, @request_hash::bytea, claim FROM intended
    RETURNING id
)
SELECT a.id, EXTRACT(EPOCH FROM i.send_until - clock_timestamp())::double precision AS send_within
FROM attempt a, intended i;

-- name: DeferPass :one
-- Ends a pass that settled nothing. Returns no row if the claim was lost. The exchange is
-- kept in any case. A purchase that was made due during the pass is due again at once: what
-- the broker then reported may be newer than its answer.
WITH deferred AS (
    UPDATE transaction_history h
    SET attempts      = h.attempts + @passes::integer,
        next_retry    = CASE WHEN h.next_retry < h.leased_until THEN now()
                             ELSE now() + make_interval(secs => @wait::double precision) END,
        leased_until  = NULL,
        reason        = COALESCE(sqlc.narg(reason), h.reason),
        send_until    = CASE WHEN @attempt_id::bigint = 0 THEN h.send_until END,
        send_ended_at = CASE WHEN @attempt_id::bigint = 0 THEN h.send_ended_at ELSE now() END,
        absent_at     = CASE WHEN @absences::integer > h.absences THEN now() ELSE h.absent_at END,
        absences      = @absences::integer,
        order_named     = h.order_named OR @names_order::boolean,
        broker_order_id = COALESCE(h.broker_order_id, sqlc.narg(order_id)),
        replay_code     = CASE WHEN @names_order::boolean THEN NULL
                               ELSE COALESCE(sqlc.narg(replay_code), h.replay_code) END,
        -- A refusal that waits to be confirmed is the purchase's answer from then on.
        broker_status_code    = CASE WHEN sqlc.narg(replay_code)::text IS NULL THEN h.broker_status_code
                                     ELSE @status_code::integer END,
        broker_body           = CASE WHEN sqlc.narg(replay_code)::text IS NULL THEN h.broker_body
                                     ELSE @answer::text END,
        broker_body_truncated = CASE WHEN sqlc.narg(replay_code)::text IS NULL THEN h.broker_body_truncated
                                     ELSE @truncated::boolean END,
        updated_at    = now()
    WHERE h.id = @id AND h.status = @unknown::text AND h.claim = @claim::bigint
    RETURNING h.*
), answered AS (
    UPDATE broker_attempt b
    SET duration_ms = @duration_ms::bigint,
        result      = @result::text,
        reason      = NULLIF(@result_reason::text, ''),
        status_code = NULLIF(@status_code::integer, 0),
        order_id    = sqlc.narg(order_id),
        answer      = @answer::text
    WHERE b.id = @attempt_id::bigint
), attempt AS (
    INSERT INTO broker_attempt (transaction_id, call, broker_key, claim, started_at, duration_ms,
                                result, reason, status_code, order_id, answer)
    SELECT @id::uuid, 'lookup', @broker_key::text, @claim::bigint,
           now() - make_interval(secs => @took::double precision), @duration_ms::bigint,
           @result::text, NULLIF(@result_reason::text, ''), NULLIF(@status_code::integer, 0),
           sqlc.narg(order_id), @answer::text
    -- A pass of a broker without lookup may have made no call at all.
    WHERE @attempt_id::bigint = 0 AND @result::text <> ''
)
SELECT * FROM deferred;

-- name: InsertLookup :exec
-- A lookup that did not end its pass: a replay follows.
INSERT INTO broker_attempt (transaction_id, call, broker_key, claim, started_at, duration_ms,
                            result, reason, status_code, answer)
SELECT @id::uuid, 'lookup', @broker_key::text, @claim::bigint,
       now() - make_interval(secs => @took::double precision), @duration_ms::bigint,
       @result::text, NULLIF(@result_reason::text, ''), NULLIF(@status_code::integer, 0), @answer::text;

-- name: RememberOrder :one
-- Keeps that the broker named an order, whoever holds the claim by now and whatever the
-- purchase has become, and returns the purchase. What is UNKNOWN is due at once.
UPDATE transaction_history
SET order_named     = true,
    broker_order_id = COALESCE(broker_order_id, sqlc.narg(order_id)),
    replay_code     = NULL,
    next_retry      = CASE WHEN status = @unknown::text THEN now() END
WHERE id = @id AND status NOT IN ('COMPLETED', 'REJECTED')
RETURNING *;

-- name: LateAnswers :many
-- What the broker answered about the order after the purchase was settled. A refusal of a
-- replay says nothing about an order that may exist.
SELECT b.call, b.result::text AS result, b.order_id
FROM broker_attempt b
JOIN transaction_history h ON h.id = b.transaction_id
WHERE h.id = @id
  AND b.started_at + b.duration_ms * interval '1 millisecond' > h.settled_at
  AND (b.result IN ('accepted', 'processing')
       OR (b.result = 'rejected' AND (b.call <> 'replay' OR b.status_code < 300)))
ORDER BY b.id;

-- name: ReleaseClaim :exec
-- Gives a claim back unused: the pass is due again after the wait and did not count. An
-- uncertain lookup that it made restarts the proof of absence.
UPDATE transaction_history
SET next_retry   = now() + make_interval(secs => @wait::double precision),
    absences     = CASE WHEN @uncertain::boolean THEN 0 ELSE absences END,
    absent_at    = CASE WHEN @uncertain::boolean THEN NULL ELSE absent_at END,
    leased_until = NULL
WHERE id = @id AND status = @unknown::text AND claim = @claim;

-- name: InFlight :one
-- The seconds for which a worker's pass, or a send that it intended, may still be in
-- flight; 0 or less if none is.
SELECT COALESCE(EXTRACT(EPOCH FROM GREATEST(
           leased_until, send_until + make_interval(secs => @call_timeout::double precision)
       ) - clock_timestamp()), 0)::double precision AS in_flight
FROM transaction_history
WHERE id = @id;

-- name: DueNow :one
-- An operator's decision on UNKNOWN: the next pass is due at once. A pass in progress
-- keeps its lease.
UPDATE transaction_history
SET next_retry = now(),
    updated_at = now()
WHERE id = @id AND status = @unknown::text
RETURNING *;
