-- name: ApplyTransitions :many
-- With SettleReplies, its short form for the ordinary case, the only statement that writes a
-- status. Each row of input names the status and version it expects; a purchase that has
-- changed is left alone and not returned. With the status go the money, the event, the
-- history and, into MANUAL_REVIEW, the alert. An attempt is stored whether its purchase
-- changed or not.
-- Tables are restricted by "= ANY" for the reason given at RecordPurchases.
WITH input AS (
    SELECT unnest(@ids::uuid[])                   AS id,
           unnest(@from_statuses::text[])         AS from_status,
           unnest(@versions::integer[])           AS version,
           -- The claim it must still have; -1 where that does not matter.
           unnest(@claims::bigint[])              AS claim,
           unnest(@statuses::text[])              AS status,
           unnest(@reasons::text[])               AS reason,
           unnest(@evidences::text[])             AS evidence,
           unnest(@actors::text[])                AS actor,
           unnest(@costs::text[])                 AS cost,
           unnest(@filled_quantities::text[])     AS filled_quantity,
           unnest(@order_ids::text[])             AS order_id,
           -- Seconds until the next pass, for UNKNOWN.
           unnest(@waits::double precision[])     AS wait,
           -- The alert that an entry into MANUAL_REVIEW writes.
           unnest(@alert_ids::uuid[])             AS alert_id,
           -- Passes to add to attempts; -1 starts again at 0.
           unnest(@passes::integer[])             AS passes,
           unnest(@note_codes::text[])            AS note_code,
           unnest(@note_details::text[])          AS note_detail,
           -- The exchange that gave the evidence; call is empty where there was none.
           unnest(@calls::text[])                 AS call,
           unnest(@broker_keys::text[])           AS broker_key,
           unnest(@attempt_ids::bigint[])         AS attempt_id,
           unnest(@request_hashes::bytea[])       AS request_hash,
           unnest(@results::text[])               AS result,
           unnest(@result_reasons::text[])        AS result_reason,
           unnest(@status_codes::integer[])       AS status_code,
           unnest(@bodies::text[])                AS body,
           unnest(@truncated::boolean[])          AS truncated,
           unnest(@durations::bigint[])           AS duration_ms,
           -- Whether the answer is the purchase's: one that was received and, on a pass,
           -- speaks of the order.
           unnest(@telling::boolean[])            AS telling,
           -- Whether the answer names an order under this key, and which.
           unnest(@names_order::boolean[])        AS names_order,
           unnest(@named_order_ids::text[])       AS named_order_id
    -- How long to wait for a locked row; for this transaction only.
    WHERE set_config('lock_timeout', @lock_timeout::text, true) <> ''
), changed AS (
    UPDATE transaction_history h
    SET status                = i.status,
        version               = h.version + 1,
        reason                = NULLIF(i.reason, ''),
        evidence              = NULLIF(i.evidence, ''),
        cost                  = CASE WHEN i.status = 'COMPLETED' THEN COALESCE(NULLIF(i.cost, '')::numeric, h.hold) END,
        filled_quantity       = CASE WHEN i.status = 'COMPLETED'
                                     THEN COALESCE(NULLIF(i.filled_quantity, '')::numeric, h.quantity) END,
        broker_order_id       = COALESCE(NULLIF(i.order_id, ''), h.broker_order_id),
        broker_status_code    = CASE WHEN i.telling THEN i.status_code ELSE h.broker_status_code END,
        broker_body           = CASE WHEN i.telling THEN i.body ELSE h.broker_body END,
        broker_body_truncated = CASE WHEN i.telling THEN i.truncated ELSE h.broker_body_truncated END,
        place_result          = CASE WHEN i.call = 'place' THEN i.result ELSE h.place_result END,
        place_reason          = CASE WHEN i.call = 'place' THEN NULLIF(i.result_reason, '') ELSE h.place_reason END,
        place_status_code     = CASE WHEN i.call = 'place' THEN NULLIF(i.status_code, 0) ELSE h.place_status_code END,
        place_duration_ms     = CASE WHEN i.call = 'place' THEN i.duration_ms ELSE h.place_duration_ms END,
        attempts              = CASE WHEN i.passes < 0 THEN 0 ELSE h.attempts + i.passes END,
        next_retry            = CASE WHEN i.status = 'UNKNOWN' THEN now() + make_interval(secs => i.wait) END,
        unknown_since         = CASE WHEN i.status = 'UNKNOWN' THEN now() ELSE h.unknown_since END,
        leased_until          = NULL,
        send_until            = CASE WHEN i.call IN ('place', 'replay') THEN NULL ELSE h.send_until END,
        send_ended_at         = CASE WHEN i.call IN ('place', 'replay') THEN now() ELSE h.send_ended_at END,
        absences              = CASE WHEN i.passes < 0 THEN 0 ELSE h.absences END,
        order_named           = h.order_named OR i.names_order,
        updated_at            = now(),
        settled_at            = CASE WHEN i.status IN ('COMPLETED', 'REJECTED') THEN now() END
    FROM input i
    WHERE h.id = ANY (@ids::uuid[])
      AND h.id = i.id
      AND h.status = i.from_status
      AND h.version = i.version
      AND (h.claim = i.claim
           -- Whoever holds no claim leaves a purchase alone while a send may be in flight.
           OR (i.claim < 0 AND (i.from_status <> 'UNKNOWN' OR h.send_until IS NULL
               OR h.send_until + make_interval(secs =>
                      (@call_timeouts::double precision[])[COALESCE(array_position(@brokers::text[], h.broker), 1)])
                  <= clock_timestamp())))
    RETURNING h.*
), settled AS (
    SELECT account_id,
           sum(hold)                                    AS hold,
           sum(COALESCE(cost, 0))                       AS cost,
           sum(GREATEST(COALESCE(cost, 0) - hold, 0))   AS overrun
    FROM changed
    WHERE status IN ('COMPLETED', 'REJECTED')
    GROUP BY account_id
), locked AS (
    -- In order, so that two batches never deadlock.
    SELECT a.id FROM account a
    WHERE a.id = ANY (ARRAY(SELECT s.account_id FROM settled s))
    ORDER BY a.id
    FOR NO KEY UPDATE
), money AS (
    UPDATE account a
    SET available = a.available + s.hold - s.cost,
        reserved  = a.reserved - s.hold,
        spent     = a.spent + s.cost,
        overrun   = a.overrun + s.overrun
    FROM settled s
    JOIN locked l ON l.id = s.account_id
    WHERE a.id = ANY (ARRAY(SELECT s.account_id FROM settled s)) AND a.id = s.account_id
), event AS (
    INSERT INTO outbox (transaction_id, account_id, version, status, previous_status, reason)
    SELECT m.id, m.account_id, m.version, m.status, i.from_status, m.reason
    FROM changed m
    JOIN input i ON i.id = m.id
), transition AS (
    INSERT INTO purchase_transition (transaction_id, version, previous_status, status, reason, actor)
    SELECT m.id, m.version, i.from_status, m.status, m.reason, i.actor
    FROM changed m
    JOIN input i ON i.id = m.id
    WHERE m.version > 2 OR m.evidence IS DISTINCT FROM 'reply'
), attempt AS (
    INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash, claim, started_at, duration_ms,
                                result, reason, status_code, order_id, answer)
    SELECT i.id, i.call, i.broker_key, NULLIF(i.request_hash, ''), GREATEST(i.claim, 0),
           now() - i.duration_ms * interval '1 millisecond', i.duration_ms,
           i.result, NULLIF(i.result_reason, ''), NULLIF(i.status_code, 0), NULLIF(i.named_order_id, ''), i.body
    FROM input i
    -- A replay has its row already, and a place call is in the purchase's own row unless
    -- its answer came too late. It is stored once, however often that is tried.
    WHERE i.call = 'lookup'
       OR (i.call = 'place' AND NOT EXISTS (SELECT FROM changed m WHERE m.id = i.id)
           AND EXISTS (SELECT FROM transaction_history h WHERE h.id = i.id AND h.place_result IS NULL)
           AND NOT EXISTS (SELECT FROM broker_attempt b WHERE b.transaction_id = i.id AND b.call = 'place'))
), answered AS (
    UPDATE broker_attempt b
    SET duration_ms = i.duration_ms,
        result      = i.result,
        reason      = NULLIF(i.result_reason, ''),
        status_code = NULLIF(i.status_code, 0),
        order_id    = NULLIF(i.named_order_id, ''),
        answer      = i.body
    FROM input i
    WHERE b.id = ANY (@attempt_ids::bigint[]) AND i.call = 'replay' AND b.id = i.attempt_id
), note AS (
    INSERT INTO purchase_note (transaction_id, code, detail, actor)
    SELECT m.id, i.note_code, i.note_detail, i.actor
    FROM changed m
    JOIN input i ON i.id = m.id
    WHERE i.note_code <> ''
    UNION ALL
    SELECT m.id, 'cost_above_reserved', 'cost ' || m.cost || ', reserved ' || m.hold, i.actor
    FROM changed m
    JOIN input i ON i.id = m.id
    WHERE m.cost > m.hold
), alarm AS (
    INSERT INTO alert (id, type, transaction_id, version, data)
    SELECT i.alert_id, 'purchase.manual_review', m.id, m.version,
           json_build_object('purchase_id', m.id, 'account_id', m.account_id, 'reason', m.reason,
                             'reserved', m.hold::text, 'currency', m.currency, 'attempts', m.attempts)::text
    FROM changed m
    JOIN input i ON i.id = m.id
    WHERE m.status = 'MANUAL_REVIEW'
)
SELECT * FROM changed;

-- name: SettleReplies :many
-- The short form of ApplyTransitions: PENDING, settled by the first call's answer at no more
-- than was held. No pass, no job, no alert, no note; the purchase's own row is the history.
-- input is materialized: computed once, not once per purchase it is compared with.
WITH input AS MATERIALIZED (
    SELECT unnest(@ids::uuid[])               AS id,
           unnest(@statuses::text[])          AS status,
           unnest(@reasons::text[])           AS reason,
           unnest(@costs::text[])             AS cost,
           unnest(@filled_quantities::text[]) AS filled_quantity,
           unnest(@order_ids::text[])         AS order_id,
           unnest(@results::text[])           AS result,
           unnest(@result_reasons::text[])    AS result_reason,
           unnest(@status_codes::integer[])   AS status_code,
           unnest(@bodies::text[])            AS body,
           unnest(@truncated::boolean[])      AS truncated,
           unnest(@durations::bigint[])       AS duration_ms
    WHERE set_config('lock_timeout', @lock_timeout::text, true) <> ''
), changed AS (
    UPDATE transaction_history h
    SET status                = i.status,
        version               = 2,
        reason                = NULLIF(i.reason, ''),
        evidence              = 'reply',
        cost                  = CASE WHEN i.status = 'COMPLETED' THEN COALESCE(NULLIF(i.cost, '')::numeric, h.hold) END,
        filled_quantity       = CASE WHEN i.status = 'COMPLETED'
                                     THEN COALESCE(NULLIF(i.filled_quantity, '')::numeric, h.quantity) END,
        broker_order_id       = NULLIF(i.order_id, ''),
        broker_status_code    = i.status_code,
        broker_body           = i.body,
        broker_body_truncated = i.truncated,
        place_result          = i.result,
        place_reason          = NULLIF(i.result_reason, ''),
        place_status_code     = i.status_code,
        place_duration_ms     = i.duration_ms,
        send_until            = NULL,
        updated_at            = now(),
        settled_at            = now()
    FROM input i
    WHERE h.id = ANY (@ids::uuid[])
      AND h.id = i.id
      AND h.status = @pending::text
    RETURNING h.*
), settled AS (
    SELECT account_id, sum(hold) AS hold, sum(COALESCE(cost, 0)) AS cost
    FROM changed
    GROUP BY account_id
), locked AS (
    SELECT a.id FROM account a
    WHERE a.id = ANY (ARRAY(SELECT s.account_id FROM settled s))
    ORDER BY a.id
    FOR NO KEY UPDATE
), money AS (
    UPDATE account a
    SET available = a.available + s.hold - s.cost,
        reserved  = a.reserved - s.hold,
        spent     = a.spent + s.cost
    FROM settled s
    JOIN locked l ON l.id = s.account_id
    WHERE a.id = ANY (ARRAY(SELECT s.account_id FROM settled s)) AND a.id = s.account_id
), event AS (
    INSERT INTO outbox (transaction_id, account_id, version, status, previous_status, reason)
    SELECT id, account_id, 2, status, @pending::text, reason FROM changed
)
SELECT * FROM changed;
