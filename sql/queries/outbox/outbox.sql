-- name: MoveOutbox :many
-- One batch of the relay; see the function.
SELECT * FROM move_outbox(@mark::bigint, @batch::integer);

-- name: OutboxSequence :one
-- The highest id that a row of the outbox may have so far, committed or not.
SELECT COALESCE(pg_sequence_last_value('outbox_id_seq'::regclass), 0)::bigint AS last_id;

-- name: OutboxStragglers :one
-- Is there a row, committed late, that a batch from mark would pass over?
SELECT EXISTS (SELECT FROM outbox WHERE id <= @mark);

-- name: EventBounds :one
-- Where the log stands: a cursor below dropped_id has missed something, one above
-- last_id has never been given out.
SELECT h.dropped_id, GREATEST(h.dropped_id, (SELECT max(e.id) FROM purchase_event e))::bigint AS last_id
FROM purchase_event_head h;

-- name: EventsAfter :many
-- Everything, for the hub and for streams without a filter.
SELECT * FROM purchase_event
WHERE id > @after AND id <= @until
ORDER BY id
LIMIT @batch;

-- name: EventsAfterOfAccount :many
SELECT * FROM purchase_event
WHERE account_id = @account_id AND id > @after AND id <= @until
ORDER BY id
LIMIT @batch;

-- name: EventsAfterOfPurchase :many
SELECT * FROM purchase_event
WHERE transaction_id = @transaction_id AND id > @after AND id <= @until
ORDER BY id
LIMIT @batch;

-- name: Heartbeat :exec
-- What every listener should hear; nothing is lost with it, so its commit need not wait
-- for the disk.
SELECT pg_notify('holdfast_events', @payload::text), set_config('synchronous_commit', 'off', true);

-- name: EventDays :many
-- The log's partitions, by name.
SELECT c.relname::text AS name
FROM pg_catalog.pg_inherits i
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'purchase_event'::regclass
ORDER BY c.relname;

-- name: AddEventDay :one
SELECT add_event_day(@day::date)::boolean AS added;

-- name: DropEventDay :exec
SELECT drop_event_day(@day::date);

-- name: DatabaseTime :one
SELECT clock_timestamp()::timestamptz AS now;
