-- +goose Up

-- Written in the transaction that changes a status; emptied by the relay at once. The
-- identity gives the order of changes of one purchase, for each is written after the
-- one before has committed. It is no order between purchases: the log gives that.
CREATE TABLE outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY,
    transaction_id  uuid        NOT NULL,
    account_id      text COLLATE "C" NOT NULL,
    version         integer     NOT NULL,
    status          text COLLATE "C" NOT NULL,
    previous_status text COLLATE "C" NOT NULL,
    reason          text,
    occurred_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pkey PRIMARY KEY (id)
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    -- Giving pages back would lock the table against the purchases for nothing: the
    -- next burst needs them again.
    vacuum_truncate = false
);

-- The event log: id is given by the relay, one after the other without a gap, so that
-- a reader needs only "id > last". Partitioned by the day (UTC) it was logged on;
-- retention drops whole partitions.
CREATE TABLE purchase_event (
    id              bigint      NOT NULL,
    transaction_id  uuid        NOT NULL,
    account_id      text COLLATE "C" NOT NULL,
    version         integer     NOT NULL,
    status          text COLLATE "C" NOT NULL,
    previous_status text COLLATE "C" NOT NULL,
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

-- The relay's lock, one row: whoever holds it may number events. The row is locked, not
-- written, for a row written in every batch would grow a chain of dead versions while
-- any old snapshot is open. dropped_id is the highest number that retention has taken
-- away: a cursor below it has missed something, and numbers never start below it.
CREATE TABLE purchase_event_head (
    only_row   boolean NOT NULL DEFAULT true,
    dropped_id bigint  NOT NULL DEFAULT 0,
    CONSTRAINT purchase_event_head_pkey PRIMARY KEY (only_row),
    CONSTRAINT purchase_event_head_only_row_check CHECK (only_row)
);

INSERT INTO purchase_event_head DEFAULT VALUES;

-- Moves up to batch rows of the outbox into the log and returns them as logged. A
-- function, so that a batch is one statement and one round trip: no relay that dies or
-- freezes in the middle can hold the lock.
--
-- Only rows above mark are looked at, because the index still holds every row moved
-- since the oldest snapshot of the cluster was taken. mark is a guess: a row below it may
-- yet be committed. Skipping one must not reverse a purchase's versions, so where a
-- candidate's predecessor is neither in the log nor before it in the batch, the batch is
-- taken from the whole outbox instead; there a visible version's predecessor is visible
-- too and has the lower id, so plain id order is right.
-- +goose StatementBegin
CREATE FUNCTION move_outbox(mark bigint, batch integer) RETURNS SETOF purchase_event
LANGUAGE plpgsql
-- The statistics say that the outbox is empty, which makes reading all of it look cheap.
SET enable_seqscan = off
AS $$
DECLARE
    ids    bigint[];
    astray boolean;
    last   bigint;
    logged timestamptz;
BEGIN
    -- Each statement below must see what was committed before it: the lock is worth
    -- nothing to a snapshot taken before it was granted.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'move_outbox runs in read committed only';
    END IF;
    -- An idle poll takes no lock, and so writes nothing.
    IF NOT EXISTS (SELECT FROM outbox o WHERE o.id > mark) THEN
        RETURN;
    END IF;
    PERFORM FROM purchase_event_head FOR UPDATE;

    WITH candidate AS (
        SELECT o.id, o.transaction_id, o.version
        FROM outbox o
        WHERE o.id > mark
        ORDER BY o.id
        LIMIT batch
    ), chain AS (
        SELECT c.*, first_value(c.version) OVER w AS base, row_number() OVER w AS nth
        FROM candidate c
        WINDOW w AS (PARTITION BY c.transaction_id ORDER BY c.id)
    )
    SELECT array_agg(c.id), bool_or(
               c.version <> c.base + c.nth - 1
               OR (c.base > 2 AND NOT EXISTS (
                   SELECT FROM purchase_event e
                   WHERE e.transaction_id = c.transaction_id AND e.version = c.base - 1)))
    INTO ids, astray
    FROM chain c;
    IF mark > 0 AND astray THEN
        SELECT array_agg(c.id) INTO ids
        FROM (SELECT o.id FROM outbox o ORDER BY o.id LIMIT batch) c;
    END IF;
    IF ids IS NULL THEN
        RETURN;
    END IF;

    -- Read under the lock: numbers and times increase together. A clock that was set back a
    -- little, as after a failover, does not change that; one that was wrong by more may.
    logged := clock_timestamp();
    SELECT GREATEST(h.dropped_id, e.id),
           CASE WHEN e.logged_at < logged + interval '1 minute' THEN GREATEST(logged, e.logged_at) ELSE logged END
    INTO last, logged
    FROM purchase_event_head h
    LEFT JOIN (SELECT id, logged_at FROM purchase_event ORDER BY id DESC LIMIT 1) e ON true;
    RETURN QUERY
    WITH taken AS (
        DELETE FROM outbox o WHERE o.id = ANY (ids)
        RETURNING o.*
    )
    INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status,
                                reason, occurred_at, logged_at)
    SELECT last + row_number() OVER (ORDER BY t.id), t.transaction_id, t.account_id, t.version, t.status,
           t.previous_status, t.reason, t.occurred_at, logged
    FROM taken t
    RETURNING *;
    -- One a batch, and never in a purchase's own transaction: a commit that notifies
    -- waits for every other one that does, in the whole cluster.
    PERFORM pg_notify('holdfast_events', '');
END
$$;
-- +goose StatementEnd

-- The two functions that retention needs run with the owner's rights, so that no process
-- has to own the log: the role that calls them can add a day, or drop what is old, but
-- cannot alter or delete anything else. They wait for no lock longer than 200 ms: adding or
-- dropping a partition needs the whole log's lock, and everyone who reads or writes events
-- waits behind it. If a dump holds that lock for an hour, the next try is as good.

-- Adds the partition of a day (UTC), unless it exists.
-- +goose StatementBegin
CREATE FUNCTION add_event_day(day date) RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET lock_timeout = '200ms'
AS $$
DECLARE
    name text := 'purchase_event_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF purchase_event FOR VALUES FROM (%L) TO (%L)',
                   name, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
    RETURN true;
END
$$;
-- +goose StatementEnd

-- Drops the partition of a day (UTC), and with it what the default partition has up to the
-- day's end: events go from the beginning of the log, never from its middle. It raises
-- dropped_id in the same transaction: a reader that finds the events gone finds it raised.
-- +goose StatementBegin
CREATE FUNCTION drop_event_day(day date) RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET lock_timeout = '200ms'
AS $$
DECLARE
    name     text := 'purchase_event_' || to_char(day, 'YYYYMMDD');
    last     bigint;
    defaults bigint;
BEGIN
    -- The relay's own lock: no batch is numbered while events are dropped.
    PERFORM FROM purchase_event_head FOR UPDATE;
    WITH gone AS (
        DELETE FROM purchase_event_default WHERE logged_at < (day + 1)::timestamp AT TIME ZONE 'UTC' RETURNING id
    )
    SELECT max(id) INTO defaults FROM gone;
    IF to_regclass(name) IS NOT NULL THEN
        EXECUTE format('SELECT max(id) FROM %I', name) INTO last;
        EXECUTE format('DROP TABLE %I', name);
    END IF;
    UPDATE purchase_event_head SET dropped_id = GREATEST(dropped_id, last, defaults);
END
$$;
-- +goose StatementEnd

-- Whoever may execute them must not choose what they see; by default everyone may.
-- +goose StatementBegin
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION add_event_day(date) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION drop_event_day(date) SET search_path = %I, pg_temp', current_schema());
    REVOKE EXECUTE ON FUNCTION add_event_day(date), drop_event_day(date) FROM PUBLIC;
END
$$;
-- +goose StatementEnd
