-- name: RaiseAlert :one
-- At most one alert of a type per hour; returns no row if there was one.
INSERT INTO alert (id, type, data)
SELECT @id::uuid, @type::text, @data
WHERE NOT EXISTS (SELECT 1 FROM alert a WHERE a.type = @type::text AND a.created_at > now() - interval '1 hour')
RETURNING id;

-- name: LockAlertType :exec
-- Makes "one per hour" hold between processes, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast alert ' || @type::text, 0));

-- name: AlertToDeliver :one
-- The alert and its age in seconds, unless it has been dealt with.
SELECT id, type, data, created_at,
       EXTRACT(EPOCH FROM now() - created_at)::double precision AS age
FROM alert
WHERE id = $1 AND delivered_at IS NULL AND abandoned_at IS NULL;

-- name: MarkAlertDelivered :exec
UPDATE alert SET delivered_at = now()
WHERE id = $1 AND delivered_at IS NULL AND abandoned_at IS NULL;

-- name: MarkAlertAbandoned :exec
UPDATE alert SET abandoned_at = now()
WHERE id = $1 AND delivered_at IS NULL AND abandoned_at IS NULL;
