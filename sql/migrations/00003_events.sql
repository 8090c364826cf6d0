-- +goose Up

-- Written in the transaction that changes a status; emptied by the relay at once. The
-- identity gives the order of changes of one purchase, for each is written after the
-- one before has committed. It is no order between purchases: the log gives that.
CREATE TABLE outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY,
    transaction_id  uuid        NOT NULL,
    account_id      text        NOT NULL,
    version         integer     NOT NULL,
    status          text        NOT NULL,
    previous_status text        NOT NULL,
    reason          text,
    occurred_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pkey PRIMARY KEY (id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The event log: id is given by the relay, one after the other without a gap, so that
-- a reader needs only "id > last". Partitioned by the day (UTC) it was logged on;
-- retention drops whole partitions.
CREATE TABLE purchase_event (
    id              bigint      NOT NULL,
    transaction_id  uuid        NOT NULL,
    account_id      text        NOT NULL,
    version         integer     NOT NULL,
    status          text        NOT NULL,
    previous_status text        NOT NULL,
    reason          text,
    occurred_at     timestamptz NOT NULL,
    logged_at       timestamptz NOT NULL,
    CONSTRAINT purchase_event_pkey PRIMARY KEY (id, logged_at)
) PARTITION BY RANGE (logged_at);

-- Catches what no day's partition takes, so that the relay never fails for want of one.
CREATE TABLE purchase_event_default PARTITION OF purchase_event DEFAULT;

-- Resuming a stream of one account or one purchase; audit.
CREATE INDEX purchase_event_account_idx ON purchase_event (account_id, id);
CREATE INDEX purchase_event_transaction_idx ON purchase_event (transaction_id, version);

-- The relay's lock and counter, one row. Whoever holds the row may number events.
CREATE TABLE purchase_event_head (
    only_row boolean NOT NULL DEFAULT true,
    last_id  bigint  NOT NULL DEFAULT 0,
    CONSTRAINT purchase_event_head_pkey PRIMARY KEY (only_row),
    CONSTRAINT purchase_event_head_only_row_check CHECK (only_row)
);

INSERT INTO purchase_event_head DEFAULT VALUES;
