-- The essential writes of a purchase and nothing else: one row inserted and updated
-- once, one balance row updated twice, one outbox row.
CREATE TABLE baseline_account (
    id        text    PRIMARY KEY,
    available numeric NOT NULL,
    reserved  numeric NOT NULL DEFAULT 0,
    spent     numeric NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE baseline_purchase (
    id          uuid        PRIMARY KEY,
    account_id  text        NOT NULL,
    key         text        NOT NULL,
    status      text        NOT NULL,
    symbol      text        NOT NULL,
    quantity    numeric     NOT NULL,
    limit_price numeric     NOT NULL,
    hold        numeric     NOT NULL,
    order_id    text,
    next_retry  timestamptz,
    created_at  timestamptz NOT NULL DEFAULT now(),
    settled_at  timestamptz,
    UNIQUE (account_id, key)
) WITH (fillfactor = 80);

-- What the polling worker claims by.
CREATE INDEX ON baseline_purchase (next_retry) WHERE status = 'UNKNOWN';

CREATE TABLE baseline_outbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    purchase_id uuid        NOT NULL,
    account_id  text        NOT NULL,
    status      text        NOT NULL,
    occurred_at timestamptz NOT NULL DEFAULT now()
);

-- The baseline of an event: a row, so that its commit has a time, and a notification.
CREATE TABLE baseline_note (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
);
