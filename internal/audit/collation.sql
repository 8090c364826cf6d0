-- The collation version that the database was created with, and the C library's now.
SELECT recorded, COALESCE(actual, 'none')
FROM (SELECT datcollversion AS recorded, pg_database_collation_actual_version(oid) AS actual
      FROM pg_database WHERE datname = current_database()) d
WHERE recorded IS NOT NULL AND actual IS DISTINCT FROM recorded
