-- +goose Up
-- What people with SQL may rely on. Tables change; these views keep their
-- columns. docs/audit.md explains them by ten questions.
CREATE SCHEMA daybook_audit;

-- +goose StatementBegin
DO $$
BEGIN
  CREATE ROLE daybook_auditor NOLOGIN;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN RAISE NOTICE 'role daybook_auditor was not made; grant the views in daybook_audit by hand';
END $$;
-- +goose StatementEnd

CREATE VIEW daybook_audit.jobs AS
SELECT j.name, j.id AS job_id,
       CASE WHEN j.archived THEN 'archived' WHEN j.paused THEN 'paused' ELSE 'active' END AS state,
       j.pause_reason, ARRAY(SELECT jsonb_array_elements_text(j.spec->'schedules')) AS schedules,
       j.spec->>'time_zone' AS time_zone, j.spec->>'queue' AS queue, j.spec->>'kind' AS kind, j.spec->>'source' AS source,
       j.spec AS definition, j.spec_version AS definition_version, j.next_fire, j.materialized_through, j.created_at, j.changed_at
  FROM jobs j;

CREATE VIEW daybook_audit.job_events AS
SELECT j.name AS job, e.stream_id AS job_id, e.version, e.at, e.type, e.actor, e.data->>'reason' AS reason, e.data, e.era, e.position
  FROM events e JOIN jobs j ON j.id = e.stream_id
 WHERE e.category = 'job';

-- +goose StatementBegin
-- Points the view at the table that bears the name now: a rebuild exchanges it.
CREATE FUNCTION daybook_make_run_view() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $make$
BEGIN
  CREATE OR REPLACE VIEW daybook_audit.runs AS
  SELECT r.run_id, r.job, r.job_id, r.job_version AS definition_version, r.origin, r.key, r.state, r.queue, r.kind, r.priority,
         r.scheduled_at, r.ready_at, r.first_started_at, r.started_at, r.finished_at, r.attempt AS attempts, r.worker,
         r.error_type, r.error_message, r.reason, r.blocked_by, r.retry_of, r.catch_up,
         r.first_started_at - r.scheduled_at AS lateness, r.finished_at - r.started_at AS duration
    FROM run_summaries r;
END $make$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION daybook_make_run_view FROM PUBLIC;
SELECT daybook_make_run_view();

CREATE VIEW daybook_audit.run_events AS
SELECT e.stream_id AS run_id, e.version, e.at, e.type, e.actor, (e.data->>'claim_id')::uuid AS claim_id, e.data, e.era, e.position
  FROM events e
 WHERE e.category = 'run';

CREATE VIEW daybook_audit.attempts AS
SELECT s.stream_id AS run_id, (s.data->>'attempt')::integer AS attempt, (s.data->>'claim_id')::uuid AS claim_id, s.data->>'worker' AS worker,
       s.at AS started_at, x.at AS ended_at, x.type AS ended_by, x.data->'error'->>'type' AS error_type, x.data->'error'->>'message' AS error_message
  FROM events s
  LEFT JOIN LATERAL (
    SELECT e.at, e.type, e.data FROM events e
     WHERE e.category = 'run' AND e.stream_id = s.stream_id AND e.version > s.version AND e.type <> 'RunCancelRequested'
     ORDER BY e.version LIMIT 1) x ON true
 WHERE s.category = 'run' AND s.type = 'RunStarted';

-- One row for every instant with a run, and one for every skipped range.
CREATE VIEW daybook_audit.decisions AS
SELECT j.name AS job, s.scheduled_at AS first_instant, s.scheduled_at AS last_instant, 1 AS instants, 'run' AS decision, s.run_id, NULL::text AS reason
  FROM run_slots s JOIN jobs j ON j.id = s.job_id
UNION ALL
SELECT j.name, (e.data->>'from')::timestamptz, (e.data->>'to')::timestamptz, (e.data->>'count')::integer, 'skipped', NULL, e.data->>'reason'
  FROM events e JOIN jobs j ON j.id = e.stream_id
 WHERE e.category = 'job' AND e.type = 'FiresSkipped';

CREATE VIEW daybook_audit.live_runs AS
SELECT run_id, job_id, queue, kind, priority, 'due' AS place, ready_at, NULL::text AS worker, NULL::timestamptz AS lease_until, NULL::text AS waits_for FROM due_runs
UNION ALL
SELECT run_id, job_id, queue, kind, priority, 'waiting', ready_at, NULL, NULL, limit_key FROM waiting_runs
UNION ALL
SELECT run_id, job_id, queue, kind, priority, CASE WHEN start_token IS NULL THEN 'claimed' ELSE 'running' END, ready_at, worker, lease_until, NULL FROM claims;

GRANT USAGE ON SCHEMA daybook_audit TO daybook_engine;
GRANT SELECT ON ALL TABLES IN SCHEMA daybook_audit TO daybook_engine;
-- +goose StatementBegin
DO $$
BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'daybook_auditor') THEN
    GRANT USAGE ON SCHEMA daybook_audit TO daybook_auditor;
    GRANT SELECT ON ALL TABLES IN SCHEMA daybook_audit TO daybook_auditor;
  END IF;
END $$;
-- +goose StatementEnd
