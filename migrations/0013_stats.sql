-- +goose Up
-- Depths, rates and durations, kept by the projection run_summaries in the same
-- transactions as its rows. All numbers are sums over events, so their order does
-- not matter.

-- How many runs of a lane are in each state now. A lane is never taken out.
CREATE TABLE queue_stats (
  queue   text NOT NULL,
  kind    text NOT NULL,
  pending bigint NOT NULL,
  claimed bigint NOT NULL,
  running bigint NOT NULL,
  PRIMARY KEY (queue, kind)
) WITH (fillfactor = 50);

-- What happened to the runs of a lane in each minute of the events' time.
CREATE TABLE lane_minutes (
  minute    timestamptz NOT NULL,
  queue     text NOT NULL,
  kind      text NOT NULL,
  scheduled bigint NOT NULL,
  claimed   bigint NOT NULL,
  started   bigint NOT NULL,
  succeeded bigint NOT NULL,
  failed    bigint NOT NULL, -- for good
  cancelled bigint NOT NULL,
  skipped   bigint NOT NULL,
  retried   bigint NOT NULL, -- attempts that failed and are followed by another
  put_back  bigint NOT NULL, -- claims that were released, snoozed or interrupted
  PRIMARY KEY (minute, queue, kind)
) WITH (fillfactor = 70);

-- The same for each job. The second index is for letting old minutes go.
CREATE TABLE job_minutes (
  job_id    uuid NOT NULL,
  minute    timestamptz NOT NULL,
  scheduled bigint NOT NULL,
  claimed   bigint NOT NULL,
  started   bigint NOT NULL,
  succeeded bigint NOT NULL,
  failed    bigint NOT NULL,
  cancelled bigint NOT NULL,
  skipped   bigint NOT NULL,
  retried   bigint NOT NULL,
  put_back  bigint NOT NULL,
  PRIMARY KEY (job_id, minute)
) WITH (fillfactor = 70);
CREATE INDEX job_minutes_minute ON job_minutes (minute);

-- How many attempts took how long, by the hour in which they started (measure
-- 'wait': from ready to start) or ended ('run': from start to end). A step is a
-- range of durations: 0 is up to 1 ms, n up to 2^n ms and above the one before.
CREATE TABLE lane_durations (
  hour    timestamptz NOT NULL,
  queue   text NOT NULL,
  kind    text NOT NULL,
  measure text NOT NULL,
  step    smallint NOT NULL,
  n       bigint NOT NULL,
  PRIMARY KEY (hour, queue, kind, measure, step)
) WITH (fillfactor = 70);

-- The same for each job, by the day in UTC.
CREATE TABLE job_durations (
  job_id  uuid NOT NULL,
  day     timestamptz NOT NULL,
  measure text NOT NULL,
  step    smallint NOT NULL,
  n       bigint NOT NULL,
  PRIMARY KEY (job_id, day, measure, step)
) WITH (fillfactor = 70);
CREATE INDEX job_durations_day ON job_durations (day);

GRANT SELECT, INSERT, UPDATE, DELETE ON queue_stats, lane_minutes, job_minutes, lane_durations, job_durations TO daybook_engine;

-- Which of a lane's waiting runs has been ready for the longest.
CREATE INDEX run_summaries_pending ON run_summaries (queue, kind, ready_at) WHERE state = 'pending';
-- The primary key has to stay the youngest index, see 0002.
ALTER TABLE run_summaries DROP CONSTRAINT run_summaries_pkey;
ALTER TABLE run_summaries ADD PRIMARY KEY (run_id);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION daybook_projection_tables(projection text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
  IF projection = 'run_summaries' THEN
    RETURN ARRAY['run_summaries', 'job_stats', 'queue_stats', 'lane_minutes', 'job_minutes', 'lane_durations', 'job_durations'];
  END IF;
  RAISE EXCEPTION 'projection "%" has no tables that can be rebuilt', projection USING ERRCODE = 'invalid_parameter_value';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Points the views at the tables that bear the names now: a rebuild exchanges them.
CREATE OR REPLACE FUNCTION daybook_make_run_view() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $make$
BEGIN
  CREATE OR REPLACE VIEW daybook_audit.runs AS
  SELECT r.run_id, r.job, r.job_id, r.job_version AS definition_version, r.origin, r.key, r.state, r.queue, r.kind, r.priority,
         r.scheduled_at, r.ready_at, r.first_started_at, r.started_at, r.finished_at, r.attempt AS attempts, r.worker,
         r.error_type, r.error_message, r.reason, r.blocked_by, r.retry_of, r.catch_up,
         r.first_started_at - r.scheduled_at AS lateness, r.finished_at - r.started_at AS duration
    FROM run_summaries r;
  CREATE OR REPLACE VIEW daybook_audit.queues AS
  SELECT q.queue, q.kind, q.pending, q.claimed, q.running FROM queue_stats q;
  CREATE OR REPLACE VIEW daybook_audit.lane_rates AS
  SELECT m.minute, m.queue, m.kind, m.scheduled, m.claimed, m.started, m.succeeded, m.failed, m.cancelled, m.skipped, m.retried, m.put_back FROM lane_minutes m;
  CREATE OR REPLACE VIEW daybook_audit.job_rates AS
  SELECT m.minute, j.name AS job, m.job_id, m.scheduled, m.claimed, m.started, m.succeeded, m.failed, m.cancelled, m.skipped, m.retried, m.put_back
    FROM job_minutes m JOIN jobs j ON j.id = m.job_id;
  CREATE OR REPLACE VIEW daybook_audit.lane_durations AS
  SELECT d.hour, d.queue, d.kind, d.measure, CASE d.step WHEN 0 THEN 0 ELSE 2 ^ (d.step - 1) END AS above_ms, 2 ^ d.step AS at_most_ms, d.n AS attempts FROM lane_durations d;
  CREATE OR REPLACE VIEW daybook_audit.job_durations AS
  SELECT d.day, j.name AS job, d.job_id, d.measure, CASE d.step WHEN 0 THEN 0 ELSE 2 ^ (d.step - 1) END AS above_ms, 2 ^ d.step AS at_most_ms, d.n AS attempts
    FROM job_durations d JOIN jobs j ON j.id = d.job_id;
END $make$;
-- +goose StatementEnd
SELECT daybook_make_run_view();
GRANT SELECT ON daybook_audit.queues, daybook_audit.lane_rates, daybook_audit.job_rates, daybook_audit.lane_durations, daybook_audit.job_durations TO daybook_engine;
-- +goose StatementBegin
DO $$
BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'daybook_auditor') THEN
    GRANT SELECT ON daybook_audit.queues, daybook_audit.lane_rates, daybook_audit.job_rates, daybook_audit.lane_durations, daybook_audit.job_durations TO daybook_auditor;
  END IF;
END $$;
-- +goose StatementEnd

-- What was counted before has to be counted again, all of it: the projection
-- begins anew, its statistics with what the log has let go of.
TRUNCATE run_summaries, job_stats;
INSERT INTO job_stats (job_id, job, succeeded, failed, cancelled, skipped, last_success_at, last_failure_at, last_success_run, last_finished_at, last_run_id)
SELECT job_id, max(job), sum(succeeded), sum(failed), sum(cancelled), sum(skipped), max(last_success_at), max(last_failure_at),
       max(last_success_run::text)::uuid, max(last_finished_at), (array_agg(last_run ORDER BY last_finished_at DESC, last_run DESC))[1]
  FROM retired_runs GROUP BY job_id;
DELETE FROM projection_parked WHERE projection = 'run_summaries';
UPDATE checkpoints SET cursor = '{"era": 0}', epoch = epoch + 1, owner = '', lease_until = '-infinity', updated_at = now() WHERE name = 'run_summaries';
