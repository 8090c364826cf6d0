-- Least-privilege roles, for a database that is Holdfast's alone or in which it has a schema
-- of its own. Run it as a superuser, or as a role that may create roles and owns the schema:
--
--     psql -v ON_ERROR_STOP=1 -f sql/roles.sql DATABASE      once, and
--     holdfast migrate                                       as holdfast_migrate, then
--     psql -v ON_ERROR_STOP=1 -f sql/roles.sql DATABASE      after every migration
--
-- It may be run at any time, any number of times. The roles get no password here: give them
-- one (ALTER ROLE holdfast_api PASSWORD …), or a line in pg_hba.conf.
--
-- holdfast_migrate  owns every table; only `holdfast migrate` uses it
-- holdfast_api      `serve --role api --no-migrate`, and the commands `key` and `account`
-- holdfast_worker   `serve --role worker --no-migrate`, and `match`
-- holdfast_audit    `audit`: reads everything, writes nothing
--
-- A process with both roles needs a login that is a member of holdfast_api and
-- holdfast_worker. No role but the owner can alter a table or delete a purchase, an attempt,
-- a status transition, a note, a deposit or an account.

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['holdfast_migrate', 'holdfast_api', 'holdfast_worker', 'holdfast_audit'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I LOGIN', name);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END LOOP;
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());
    EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO holdfast_migrate', current_schema());
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO holdfast_api, holdfast_worker, holdfast_audit', current_schema());
END
$$;

-- The rest needs the tables.
DO $$
DECLARE
    river text;
BEGIN
    IF to_regclass('transaction_history') IS NULL THEN
        RAISE NOTICE 'run this again after holdfast migrate';
        RETURN;
    END IF;

    -- What both halves do: record and settle purchases, move money, relay events, schedule
    -- and work jobs. History is added to, never changed or deleted.
    GRANT SELECT ON holdfast_schema_version, status_transition, switch, api_key,
        account, deposit, transaction_history, broker_attempt, purchase_transition, purchase_note,
        outbox, purchase_event, purchase_event_head, alert,
        statement_match, statement_deferred, statement_finding
        TO holdfast_api, holdfast_worker;
    GRANT UPDATE ON account TO holdfast_api, holdfast_worker;
    GRANT INSERT, UPDATE ON transaction_history, broker_attempt, alert TO holdfast_api, holdfast_worker;
    GRANT INSERT ON purchase_transition, purchase_note, purchase_event TO holdfast_api, holdfast_worker;
    GRANT INSERT, DELETE ON outbox TO holdfast_api, holdfast_worker;
    GRANT UPDATE ON purchase_event_head TO holdfast_api, holdfast_worker;
    GRANT SELECT, DELETE ON stream_ticket, operator_session TO holdfast_api, holdfast_worker;

    -- The API: accounts, keys, sessions, switches, closing findings.
    GRANT INSERT ON account, deposit, api_key, stream_ticket, operator_session TO holdfast_api;
    GRANT INSERT, UPDATE ON switch TO holdfast_api;
    GRANT UPDATE ON api_key, statement_finding TO holdfast_api;

    -- Workers: the event log's days, matching the broker's list.
    GRANT EXECUTE ON FUNCTION add_event_day(date), drop_event_day(date) TO holdfast_worker;
    GRANT INSERT, UPDATE ON statement_match, statement_finding TO holdfast_worker;
    GRANT INSERT, UPDATE, DELETE ON statement_deferred TO holdfast_worker;

    -- River's tables hold no history: the purchases do. An api process inserts jobs and
    -- serves River UI, which cancels, deletes and pauses.
    FOR river IN
        SELECT c.oid::regclass::text FROM pg_class c
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'river_job'::regclass)
          AND c.relkind = 'r' AND starts_with(c.relname, 'river_')
    LOOP
        EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON ' || river || ' TO holdfast_api, holdfast_worker';
    END LOOP;

    EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA %I TO holdfast_api, holdfast_worker', current_schema());
    EXECUTE format('GRANT SELECT ON ALL SEQUENCES IN SCHEMA %I TO holdfast_audit', current_schema());
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO holdfast_audit', current_schema());
END
$$;
