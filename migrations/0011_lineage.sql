-- +goose Up
-- From a run to those that were made of it.
CREATE INDEX run_summaries_retry_of ON run_summaries (retry_of) WHERE retry_of IS NOT NULL;

-- Where a run comes from: the definition in force, who had made that, and who or
-- what asked for the run. retry_of leads on.
CREATE VIEW daybook_audit.lineage AS
SELECT e.stream_id AS run_id, e.data->>'job' AS job, e.data->>'origin' AS origin, e.at AS made_at, e.actor AS made_by, e.data->>'reason' AS reason,
       (e.data->>'scheduled_at')::timestamptz AS scheduled_at, e.data->>'key' AS key, (e.data->>'retry_of')::uuid AS retry_of,
       (e.data->>'job_version')::integer AS definition_version, d.at AS defined_at, d.actor AS defined_by, d.data->>'reason' AS definition_reason
  FROM events e
  LEFT JOIN events d ON d.category = 'job' AND d.stream_id = (e.data->>'job_id')::uuid AND d.version = (e.data->>'job_version')::integer
 WHERE e.category = 'run' AND e.version = 1;
GRANT SELECT ON daybook_audit.lineage TO daybook_engine;
-- +goose StatementBegin
DO $$
BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'daybook_auditor') THEN
    GRANT SELECT ON daybook_audit.lineage TO daybook_auditor;
  END IF;
END $$;
-- +goose StatementEnd
