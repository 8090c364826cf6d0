-- name: CreateAccount :one
-- The account and, where it opens with money, its first deposit. Returns no row where
-- the id is taken.
WITH created AS (
    INSERT INTO account (id, currency, available, deposited, broker, broker_account)
    VALUES (@id, @currency, @available::numeric, @available::numeric, @broker, @broker_account)
    ON CONFLICT ON CONSTRAINT account_pkey DO NOTHING
    RETURNING *
), opening AS (
    INSERT INTO deposit (id, account_id, amount, note, actor)
    SELECT @deposit_id, id, deposited, 'opening balance', @actor FROM created WHERE deposited > 0
)
SELECT * FROM created;

-- name: AccountByID :one
SELECT * FROM account WHERE id = $1;

-- name: AccountTerms :one
SELECT currency, broker, broker_account FROM account WHERE id = $1;

-- name: SetAccountBroker :one
-- Changes what is given. Purchases that are recorded from then on go to the new broker.
UPDATE account
SET broker         = COALESCE(sqlc.narg(broker), broker),
    broker_account = COALESCE(sqlc.narg(broker_account), broker_account)
WHERE id = @id
RETURNING *;

-- name: RecordDeposit :one
-- The deposit and its effect. Returns no row where the account does not exist or the
-- key was used before. The account is locked first, so a repeat sees the first one.
WITH locked AS (
    SELECT a.id FROM account a WHERE a.id = @account_id FOR NO KEY UPDATE
), recorded AS (
    INSERT INTO deposit (id, account_id, idempotency_key, amount, note, actor)
    SELECT @id, l.id, @idempotency_key::text, @amount::numeric, @note, @actor FROM locked l
    ON CONFLICT ON CONSTRAINT deposit_idempotency_key DO NOTHING
    RETURNING account_id, amount
)
UPDATE account a
SET available = a.available + r.amount,
    deposited = a.deposited + r.amount
FROM recorded r
WHERE a.id = r.account_id
RETURNING a.*;

-- name: DepositByKey :one
SELECT * FROM deposit WHERE account_id = $1 AND idempotency_key = $2;

-- name: ListAccounts :many
-- For an operator's listing, bounded; by the primary key's index.
SELECT * FROM account ORDER BY id LIMIT $1;
