-- +goose NO TRANSACTION
-- +goose Up

-- River's table may be another application's, too, and large: its indexes are made without
-- blocking writes. An index that a failed attempt has left invalid is dropped first.
DROP INDEX CONCURRENTLY IF EXISTS river_job_transaction_idx;
DROP INDEX CONCURRENTLY IF EXISTS river_job_alert_idx;

-- A purchase's job is found by its transaction id: the sweep, audit, "due now".
CREATE INDEX CONCURRENTLY river_job_transaction_idx ON river_job ((args ->> 'transaction_id'))
    WHERE kind = 'reconcile_purchase';

-- The sweep of alerts without a job.
CREATE INDEX CONCURRENTLY river_job_alert_idx ON river_job ((args ->> 'alert_id'))
    WHERE kind = 'deliver_alert';

ALTER TABLE river_job SET (autovacuum_vacuum_scale_factor = 0.02);
