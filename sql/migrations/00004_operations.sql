-- +goose Up

-- Each alert that must reach a person, written with the change it tells of. A River
-- job delivers it; a row without delivered_at and without a job is found by the sweep.
CREATE TABLE alert (
    id             uuid        NOT NULL,
    type           text COLLATE "C" NOT NULL,
    transaction_id uuid,
    -- The purchase's version at its entry into review: one alert a review.
    version        integer,
    data           text        NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    delivered_at   timestamptz,
    -- Set when a day of retries has not delivered it.
    abandoned_at   timestamptz,
    CONSTRAINT alert_pkey PRIMARY KEY (id),
    CONSTRAINT alert_review_key UNIQUE (transaction_id, version)
);

-- The hourly limit of a type, the count of manual reviews.
CREATE INDEX alert_type_idx ON alert (type, created_at);

-- What is still to be delivered.
CREATE INDEX alert_undelivered_idx ON alert (created_at)
    WHERE delivered_at IS NULL AND abandoned_at IS NULL;

-- What operators have paused, for one broker or, if broker is empty, for all; read by every
-- process every second.
CREATE TABLE switch (
    name       text COLLATE "C" NOT NULL,
    paused     boolean     NOT NULL DEFAULT false,
    note       text        NOT NULL DEFAULT '',
    actor      text        NOT NULL DEFAULT '',
    changed_at timestamptz NOT NULL DEFAULT now(),
    broker     text COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT switch_pkey PRIMARY KEY (name, broker),
    CONSTRAINT switch_name_check CHECK (name IN ('intake', 'passes'))
);

INSERT INTO switch (name) VALUES ('intake'), ('passes');

-- API keys. Only a SHA-256 of the secret is kept: the secret is 256 random bits, so
-- there is nothing a slow hash would protect.
CREATE TABLE api_key (
    id           text COLLATE "C" NOT NULL,
    prefix       text COLLATE "C" NOT NULL,
    hash         bytea       NOT NULL,
    scope        text COLLATE "C" NOT NULL,
    account_id   text COLLATE "C",
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    CONSTRAINT api_key_pkey PRIMARY KEY (id),
    CONSTRAINT api_key_hash_key UNIQUE (hash),
    CONSTRAINT api_key_account_fkey FOREIGN KEY (account_id) REFERENCES account (id),
    CONSTRAINT api_key_scope_check
        CHECK (scope IN ('client', 'operator', 'broker') AND (scope = 'client') = (account_id IS NOT NULL))
);

-- One-use tickets for EventSource, which cannot send a header.
CREATE TABLE stream_ticket (
    hash       bytea       NOT NULL,
    key_id     text COLLATE "C" NOT NULL,
    -- Only of the operator key that the environment gives: a ticket ends with that key.
    key_hash   bytea,
    scope      text COLLATE "C" NOT NULL,
    account_id text COLLATE "C",
    -- When the credential itself ends, where it does (a token of an identity provider).
    principal_expires_at timestamptz,
    expires_at timestamptz NOT NULL,
    CONSTRAINT stream_ticket_pkey PRIMARY KEY (hash)
);

-- Operator sessions of the console and River UI. A session dies with its key; key_hash
-- tells that the key given by the environment is no longer the one it was made with.
CREATE TABLE operator_session (
    hash       bytea       NOT NULL,
    key_id     text COLLATE "C" NOT NULL,
    key_hash   bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT operator_session_pkey PRIMARY KEY (hash)
);
