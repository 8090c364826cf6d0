-- +goose Up

-- How far each broker's order list has been matched, and which process is matching it.
-- One row per broker.
CREATE TABLE statement_match (
    broker        text COLLATE "C" NOT NULL,
    -- Orders and purchases created between these moments have been compared. NULL: none yet.
    matched_from  timestamptz,
    matched_until timestamptz,
    -- When the next match is due.
    due_at        timestamptz NOT NULL DEFAULT now(),
    failures      integer     NOT NULL DEFAULT 0,
    -- The fence: a match may move the watermark only while lease is the number it was given.
    lease         bigint      NOT NULL DEFAULT 0,
    leased_until  timestamptz,
    CONSTRAINT statement_match_pkey PRIMARY KEY (broker)
);

-- Purchases whose comparison waits until they are final, and what the broker's list has
-- named for them meanwhile. It does not reference the purchase: a foreign key would lock
-- the row of a purchase that somebody is settling.
CREATE TABLE statement_deferred (
    transaction_id uuid    NOT NULL,
    -- MD5 of the order id, or empty for the purchase itself.
    order_ref      text COLLATE "C" NOT NULL,
    broker         text COLLATE "C" NOT NULL,
    -- The listed order as JSON; NULL for the purchase itself.
    listed         text,
    -- Whether the purchase has been made due because of this order.
    expedited      boolean NOT NULL DEFAULT false,
    CONSTRAINT statement_deferred_pkey PRIMARY KEY (transaction_id, order_ref),
    CONSTRAINT statement_deferred_listed_check CHECK ((listed IS NULL) = (order_ref = ''))
);

-- Every discrepancy between a broker's list and ours, stored once.
CREATE TABLE statement_finding (
    id             uuid        NOT NULL,
    broker         text COLLATE "C" NOT NULL,
    kind           text COLLATE "C" NOT NULL,
    -- What differs: the broker key, the order and the differing value. It identifies the
    -- discrepancy, so that one which is known or closed is not reported again.
    subject        text        NOT NULL,
    broker_key     text COLLATE "C" NOT NULL,
    transaction_id uuid,
    order_id       text COLLATE "C",
    detail         text        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    alerted_at     timestamptz,
    closed_at      timestamptz,
    note           text,
    closed_by      text,
    CONSTRAINT statement_finding_pkey PRIMARY KEY (id),
    CONSTRAINT statement_finding_kind_check
        CHECK (kind IN ('unknown_order', 'second_order', 'rejected_but_ordered', 'completed_but_missing',
                        'quantity_differs', 'cost_differs')),
    CONSTRAINT statement_finding_closed_check
        CHECK ((closed_at IS NULL) = (note IS NULL) AND (closed_at IS NULL) = (closed_by IS NULL))
);

-- One finding per discrepancy. Hashed, because a broker's order id may be longer than an
-- index entry.
CREATE UNIQUE INDEX statement_finding_subject_idx ON statement_finding (broker, kind, md5(subject));

-- Lists and counts of open findings, and the alert about new ones.
CREATE INDEX statement_finding_open_idx ON statement_finding (id) WHERE closed_at IS NULL;

-- An order that a replay created appears on the broker's list long after its purchase.
CREATE INDEX broker_attempt_replay_key_idx ON broker_attempt (broker_key) WHERE call = 'replay';
