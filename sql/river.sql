-- What the queries use of River's tables, for sqlc alone: River's own migrations make the
-- tables.
CREATE TABLE river_job (
    id           bigint      NOT NULL PRIMARY KEY,
    kind         text        NOT NULL,
    state        text        NOT NULL,
    attempt      smallint    NOT NULL,
    metadata     jsonb       NOT NULL,
    args         jsonb       NOT NULL,
    attempted_at timestamptz,
    scheduled_at timestamptz NOT NULL
);

CREATE TABLE river_queue (
    name      text        NOT NULL PRIMARY KEY,
    paused_at timestamptz
);
