-- +goose Up

-- One row a purchase, written twice in the plain case: recorded, settled. The row is
-- the truth about the purchase, its money and its next check; River only carries.
CREATE TABLE transaction_history (
    id                    uuid        NOT NULL,
    account_id            text COLLATE "C" NOT NULL,
    idempotency_key       text COLLATE "C" NOT NULL,
    -- Hash of the request's meaning: tells a repeat from another purchase.
    fingerprint           bytea       NOT NULL,
    status                text COLLATE "C" NOT NULL DEFAULT 'PENDING',
    -- Counts status changes; PENDING is 1.
    version               integer     NOT NULL DEFAULT 1,
    symbol                text COLLATE "C" NOT NULL,
    quantity              numeric,
    limit_price           numeric,
    notional              numeric,
    currency              text COLLATE "C" NOT NULL,
    -- What is reserved while the purchase is not final.
    hold                  numeric     NOT NULL,
    cost                  numeric,
    filled_quantity       numeric,
    -- After it nothing more is sent for this purchase: as given, or a default of the time it
    -- was recorded.
    valid_until           timestamptz,
    metadata              text        NOT NULL DEFAULT '{}',
    reason                text,
    evidence              text,

    -- The broker that was asked, the key and the very bytes of every attempt.
    broker                text COLLATE "C" NOT NULL,
    -- The account's name at the broker.
    broker_account        text        NOT NULL DEFAULT '',
    broker_key            text COLLATE "C" NOT NULL,
    broker_request        bytea       NOT NULL,
    request_hash          bytea       NOT NULL,
    broker_order_id       text COLLATE "C",
    -- What the place call, or the attempt that ended the purchase, answered. The body
    -- is text, not json: it holds whatever the broker sent.
    broker_status_code    integer,
    broker_body           text,
    broker_body_truncated boolean     NOT NULL DEFAULT false,
    -- The place call itself; lookups and replays stand in broker_attempt.
    place_result          text,
    place_reason          text,
    place_status_code     integer,
    place_duration_ms     bigint,
    -- The open intent to send: the moment up to which the first byte of a place or replay
    -- may leave. NULL while none is open. Nothing but its own outcome ends the purchase
    -- before the broker timeout after it.
    send_until            timestamptz,
    -- When the last place or replay had ended: "not found" counts a settle time later.
    -- NULL until an outcome was stored; then an interrupted send ended, at the latest, the
    -- broker timeout after send_until.
    send_ended_at         timestamptz,
    -- The code of a replay's refusal that waits for lookups to confirm it.
    replay_code           text,
    -- Consecutive counted "not found" answers since the last send, and the last one's time.
    absences              integer     NOT NULL DEFAULT 0,
    absent_at             timestamptz,
    -- The broker has named an order under this key: it can no longer be absent.
    order_named           boolean     NOT NULL DEFAULT false,

    attempts              integer     NOT NULL DEFAULT 0,
    next_retry            timestamptz,
    unknown_since         timestamptz,
    -- The fence: a pass may write only while claim is the number it was given.
    claim                 bigint      NOT NULL DEFAULT 0,
    leased_until          timestamptz,

    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    settled_at            timestamptz,

    CONSTRAINT transaction_history_pkey PRIMARY KEY (id),
    CONSTRAINT transaction_history_account_fkey FOREIGN KEY (account_id) REFERENCES account (id),
    -- Idempotency: one purchase a key and account.
    CONSTRAINT transaction_history_idempotency_key UNIQUE (account_id, idempotency_key),
    CONSTRAINT transaction_history_status_check
        CHECK (status IN ('PENDING', 'COMPLETED', 'REJECTED', 'UNKNOWN', 'MANUAL_REVIEW')),
    CONSTRAINT transaction_history_version_check
        CHECK (version >= 1 AND (version = 1) = (status = 'PENDING')),
    CONSTRAINT transaction_history_next_retry_check
        CHECK ((next_retry IS NOT NULL) = (status = 'UNKNOWN')),
    CONSTRAINT transaction_history_final_check
        CHECK ((settled_at IS NOT NULL) = (status IN ('COMPLETED', 'REJECTED'))
           AND (evidence IS NOT NULL) = (status IN ('COMPLETED', 'REJECTED'))),
    CONSTRAINT transaction_history_cost_check
        CHECK ((cost IS NOT NULL) = (status = 'COMPLETED') AND cost >= 0),
    CONSTRAINT transaction_history_reason_check
        CHECK ((reason IS NULL) = (status IN ('PENDING', 'COMPLETED'))),
    CONSTRAINT transaction_history_evidence_check
        CHECK (evidence IN ('reply', 'lookup', 'replay', 'operator')),
    CONSTRAINT transaction_history_order_check
        CHECK ((notional IS NULL) = (quantity IS NOT NULL) AND (quantity IS NULL) = (limit_price IS NULL)
           AND quantity > 0 AND limit_price > 0 AND notional > 0),
    CONSTRAINT transaction_history_hold_check CHECK (hold > 0),
    CONSTRAINT transaction_history_attempts_check CHECK (attempts >= 0),
    CONSTRAINT transaction_history_absences_check CHECK (absences >= 0)
) WITH (fillfactor = 80);

-- +goose StatementBegin
-- Reports whether a key was used before. A function, because each of its statements sees
-- what is committed by then: RecordPurchases calls it once it has locked the account, and
-- from then on nobody else can record a purchase of that account. The key's index is used
-- whatever the statistics of a table that grows fast say.
CREATE FUNCTION purchase_exists(account text, key text) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM transaction_history h WHERE h.account_id = account AND h.idempotency_key = key);
END
$$;
-- +goose StatementEnd

-- One broker order belongs to one purchase. Hashed, for a broker's id may be longer than
-- an index takes.
CREATE UNIQUE INDEX transaction_history_broker_order_id_idx
    ON transaction_history (broker, md5(broker_order_id)) WHERE broker_order_id IS NOT NULL;

-- The sweep (what is overdue), the gauge of the oldest due retry, audit.
CREATE INDEX transaction_history_unknown_retry_idx
    ON transaction_history (next_retry) WHERE status = 'UNKNOWN';

-- OrderDueNow: the purchase that a broker's event names. Only what is UNKNOWN can become due.
CREATE INDEX transaction_history_unknown_key_idx
    ON transaction_history (broker_key) WHERE status = 'UNKNOWN';

-- The sweep of stale PENDING, the counts of what is open, lists of what is open. Ids
-- are UUIDv7, so their order is the order of birth.
CREATE INDEX transaction_history_open_idx
    ON transaction_history (status, id) WHERE status IN ('PENDING', 'UNKNOWN', 'MANUAL_REVIEW');

-- Lists and the count of what was rejected, few among many.
CREATE INDEX transaction_history_rejected_idx
    ON transaction_history (id) WHERE status = 'REJECTED';

-- Lists of one account, newest first. Not by id: the primary key must stay the only index
-- that a cached plan can find one purchase by.
CREATE INDEX transaction_history_account_idx
    ON transaction_history (account_id, created_at);

-- Every lookup and replay, and a first call's answer that came too late. A replay is
-- written before it is sent, so result and duration_ms may stay empty permanently.
CREATE TABLE broker_attempt (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    transaction_id uuid        NOT NULL,
    call           text COLLATE "C" NOT NULL,
    broker_key     text COLLATE "C" NOT NULL,
    -- NULL for a lookup, which sends no order.
    request_hash   bytea,
    claim          bigint      NOT NULL DEFAULT 0,
    started_at     timestamptz NOT NULL DEFAULT now(),
    duration_ms    bigint,
    result         text,
    reason         text,
    status_code    integer,
    -- The order that the answer names under this key.
    order_id       text,
    answer         text,
    CONSTRAINT broker_attempt_pkey PRIMARY KEY (id),
    CONSTRAINT broker_attempt_transaction_fkey FOREIGN KEY (transaction_id) REFERENCES transaction_history (id),
    CONSTRAINT broker_attempt_call_check CHECK (call IN ('place', 'lookup', 'replay')),
    CONSTRAINT broker_attempt_result_check
        CHECK (result IN ('accepted', 'rejected', 'processing', 'absent', 'uncertain', 'not_sent')),
    CONSTRAINT broker_attempt_hash_check CHECK ((request_hash IS NULL) = (call = 'lookup'))
);

-- A purchase's history.
CREATE INDEX broker_attempt_transaction_idx ON broker_attempt (transaction_id, id);

-- The diagram: which status may follow which. The same table is in purchase/status.go and
-- docs/states.md.
CREATE TABLE status_transition (
    from_status text COLLATE "C" NOT NULL,
    to_status   text COLLATE "C" NOT NULL,
    CONSTRAINT status_transition_pkey PRIMARY KEY (from_status, to_status)
);

INSERT INTO status_transition (from_status, to_status)
VALUES ('PENDING', 'COMPLETED'), ('PENDING', 'REJECTED'), ('PENDING', 'UNKNOWN'),
       ('UNKNOWN', 'COMPLETED'), ('UNKNOWN', 'REJECTED'), ('UNKNOWN', 'MANUAL_REVIEW'),
       ('MANUAL_REVIEW', 'COMPLETED'), ('MANUAL_REVIEW', 'REJECTED'), ('MANUAL_REVIEW', 'UNKNOWN');

-- Status changes beyond the plain ones (PENDING to COMPLETED or REJECTED by the first
-- call), which the purchase's own row tells. Kept as long as the purchase: the event
-- log is not.
CREATE TABLE purchase_transition (
    transaction_id  uuid        NOT NULL,
    version         integer     NOT NULL,
    previous_status text COLLATE "C" NOT NULL,
    status          text COLLATE "C" NOT NULL,
    reason          text,
    actor           text        NOT NULL,
    at              timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT purchase_transition_pkey PRIMARY KEY (transaction_id, version),
    CONSTRAINT purchase_transition_diagram_fkey
        FOREIGN KEY (previous_status, status) REFERENCES status_transition (from_status, to_status),
    CONSTRAINT purchase_transition_transaction_fkey FOREIGN KEY (transaction_id) REFERENCES transaction_history (id)
);

-- Remarks in a purchase's history: an operator's words, a cost above what was held,
-- an answer that contradicts a final status.
CREATE TABLE purchase_note (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    transaction_id uuid        NOT NULL,
    code           text        NOT NULL,
    detail         text        NOT NULL,
    actor          text        NOT NULL,
    at             timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT purchase_note_pkey PRIMARY KEY (id),
    CONSTRAINT purchase_note_transaction_fkey FOREIGN KEY (transaction_id) REFERENCES transaction_history (id)
);

-- A purchase's history.
CREATE INDEX purchase_note_transaction_idx ON purchase_note (transaction_id, id);
