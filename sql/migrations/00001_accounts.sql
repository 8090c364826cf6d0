-- +goose Up

-- The narrow balance row. It moves only in the statement that inserts a purchase,
-- changes a purchase's status or records a deposit. fillfactor leaves room for HOT
-- updates; no balance is indexed.
CREATE TABLE account (
    id         text COLLATE "C" NOT NULL,
    currency   text COLLATE "C" NOT NULL,
    available  numeric     NOT NULL DEFAULT 0,
    reserved   numeric     NOT NULL DEFAULT 0,
    spent      numeric     NOT NULL DEFAULT 0,
    deposited  numeric     NOT NULL DEFAULT 0,
    -- What settled costs exceeded their holds by: as far, and no further, available
    -- may stand below zero.
    overrun    numeric     NOT NULL DEFAULT 0,
    -- The broker that takes the account's purchases; empty: the default one of whoever
    -- serves. A purchase keeps the broker that it was placed with.
    broker     text COLLATE "C" NOT NULL DEFAULT '',
    -- The account's name at its broker; empty: its id.
    broker_account text COLLATE "C" NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT account_pkey PRIMARY KEY (id),
    CONSTRAINT account_id_check CHECK (id ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    CONSTRAINT account_currency_check CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT account_sum_check CHECK (deposited = available + reserved + spent),
    CONSTRAINT account_available_check CHECK (available >= -overrun),
    CONSTRAINT account_amounts_check CHECK (reserved >= 0 AND spent >= 0 AND deposited >= 0 AND overrun >= 0)
) WITH (fillfactor = 50);

CREATE TABLE deposit (
    id              uuid        NOT NULL,
    account_id      text COLLATE "C" NOT NULL,
    -- NULL for an opening balance, which comes with the account itself.
    idempotency_key text COLLATE "C",
    amount          numeric     NOT NULL,
    note            text        NOT NULL DEFAULT '',
    actor           text        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT deposit_pkey PRIMARY KEY (id),
    CONSTRAINT deposit_account_fkey FOREIGN KEY (account_id) REFERENCES account (id),
    -- Serves the repeat of a deposit and audit's sum over an account.
    CONSTRAINT deposit_idempotency_key UNIQUE (account_id, idempotency_key),
    CONSTRAINT deposit_amount_check CHECK (amount > 0)
);
