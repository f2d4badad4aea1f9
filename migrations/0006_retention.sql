-- +goose Up
-- How long history is kept. Only the owner of the tables can change the spans:
-- whoever has the engine's password cannot shorten what it is to keep. The owner
-- and lease_until are of the process that looks after retention.
CREATE TABLE retention (
  one          boolean PRIMARY KEY DEFAULT true CHECK (one),
  keep_runs    interval CHECK (keep_runs >= interval '1 day'),    -- NULL: for ever
  keep_outputs interval CHECK (keep_outputs >= interval '1 hour'), -- NULL: as long as the runs
  changed_at   timestamptz NOT NULL DEFAULT now(),
  changed_by   text NOT NULL,
  owner        text NOT NULL DEFAULT '',
  lease_until  timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO retention (keep_runs, keep_outputs, changed_by) VALUES ('400 days', '30 days', 'standard');

-- The exports of months of runs, and which of them the log has let go of. A
-- month can have several: an export is for nothing once another event came, and
-- a month that was dropped comes back when instants of it are backfilled.
CREATE TABLE retired_months (
  month       date NOT NULL,        -- of the runs' ids, in UTC
  sha256      text NOT NULL,        -- of the file
  file        text NOT NULL,
  directory   text NOT NULL,        -- where it was written
  host        text NOT NULL,
  runs        bigint NOT NULL,
  events      bigint NOT NULL,
  bytes       bigint NOT NULL,
  newest_at   timestamptz NOT NULL, -- of its events
  position    bigint NOT NULL,      -- the highest of its events
  era         smallint NOT NULL,    -- of the last of them
  xid         xid8 NOT NULL,        -- the highest in that era
  seen_era    smallint NOT NULL,    -- in which it was exported
  snapshot    pg_snapshot NOT NULL, -- what this does not see is not in the file
  exported_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  exported_by text NOT NULL,
  verified_at timestamptz,          -- the file was read back and equals the table
  dropped_at  timestamptz,
  dropped_by  text,
  PRIMARY KEY (month, sha256)
);

-- +goose StatementBegin
-- Whether a reader of the log, told by its cursor, has everything of a month
-- behind it. In doubt it does not.
CREATE FUNCTION daybook_has_read(cursor jsonb, m retired_months) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE
    WHEN cursor ? 'scan' THEN false
    WHEN (cursor->>'era')::integer <> m.era THEN (cursor->>'era')::integer > m.era
    ELSE coalesce(m.xid < pg_snapshot_xmin((cursor->>'prev')::pg_snapshot), false)
      OR m.position <= coalesce((cursor->>'position')::bigint, 0)
         AND (cursor->>'next' IS NULL OR m.xid < pg_snapshot_xmin((cursor->>'next')::pg_snapshot))
  END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Why the log must keep a month of runs; NULL if it may let go: the month is
-- older than the owner's spans keep it, it was exported and verified as it lies
-- here, every reader of the log has read it, and all its runs are finished. A
-- month without any event needs no export: its digest is ''.
CREATE FUNCTION daybook_must_keep(m date, digest text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT SET timezone = 'UTC'
AS $$
DECLARE
  leaf CONSTANT text := 'events_run_' || to_char(m, 'YYYYMM');
  ends CONSTANT timestamptz := m::timestamptz + interval '1 month';
  low  CONSTANT uuid := daybook_run_bound(m::timestamptz);
  high CONSTANT uuid := daybook_run_bound(ends);
  keep interval;
  x    retired_months;
  who  text;
  late boolean;
BEGIN
  IF m <> date_trunc('month', m) OR to_regclass(leaf) IS NULL THEN
    RETURN 'the log has no such month';
  END IF;
  SELECT keep_runs INTO keep FROM retention;
  IF keep IS NULL OR ends > now() - keep THEN
    RETURN 'runs are kept for ' || coalesce(keep::text, 'ever');
  END IF;
  IF digest = '' THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', leaf) INTO late;
    RETURN CASE WHEN late THEN 'it has events, and no export was named' END;
  END IF;
  SELECT * INTO x FROM retired_months WHERE month = m AND sha256 = digest;
  IF x.verified_at IS NULL OR x.dropped_at IS NOT NULL THEN
    RETURN 'there is no verified export of it with that checksum';
  END IF;
  IF x.newest_at > now() - keep THEN
    RETURN 'its newest event is of ' || x.newest_at || ', and runs are kept for ' || keep;
  END IF;
  IF x.seen_era <> (SELECT max(era) FROM eras) THEN
    RETURN 'the database was restored or promoted since the export';
  END IF;
  EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE xid >= pg_snapshot_xmin($1) AND NOT pg_visible_in_snapshot(xid, $1))', leaf)
    INTO late USING x.snapshot;
  IF late THEN
    RETURN 'events came to it since the export';
  END IF;
  -- A rebuild that was broken off begins anew and needs nothing kept.
  SELECT coalesce(r.name, c.name) INTO who
    FROM checkpoints c FULL JOIN (VALUES ('run_summaries'), ('event_feed')) AS r(name) ON r.name = c.name
   WHERE (r.name IS NOT NULL OR c.name NOT LIKE '%/next' OR c.lease_until > now())
     AND NOT coalesce(daybook_has_read(c.cursor, x), false)
   ORDER BY 1 LIMIT 1;
  IF who IS NOT NULL THEN
    RETURN who || ' has not read all of it';
  END IF;
  IF EXISTS (SELECT FROM due_runs WHERE run_id >= low AND run_id < high) OR EXISTS (SELECT FROM waiting_runs WHERE run_id >= low AND run_id < high)
     OR EXISTS (SELECT FROM claims WHERE run_id >= low AND run_id < high) OR EXISTS (SELECT FROM parked_runs WHERE run_id >= low AND run_id < high) THEN
    RETURN 'a run of it is not finished';
  END IF;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Lets go of a month of runs: the one way in which events leave the log. It
-- refuses with SQLSTATE DB003, and waits for locks no longer than 0.3 s, since
-- everybody else waits behind it.
CREATE FUNCTION daybook_retire_month(m date, digest text, by_whom text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET timezone = 'UTC' SET lock_timeout = '300ms'
AS $$
DECLARE
  why text := daybook_must_keep(m, digest);
BEGIN
  IF why IS NULL THEN
    PERFORM FROM retired_months WHERE month = m AND sha256 = digest FOR UPDATE;
    -- Index: none; the table is read whole, and nobody waits for these rows.
    DELETE FROM run_keys WHERE run_id >= daybook_run_bound(m::timestamptz) AND run_id < daybook_run_bound(m::timestamptz + interval '1 month');
    EXECUTE format('LOCK TABLE ONLY events_run, ONLY events_run_%s IN ACCESS EXCLUSIVE MODE', to_char(m, 'YYYYMM'));
    -- Again, now that nobody writes: a few look-ups.
    why := daybook_must_keep(m, digest);
  END IF;
  IF why IS NOT NULL THEN
    RAISE EXCEPTION '%', why USING ERRCODE = 'DB003';
  END IF;
  EXECUTE format('DROP TABLE events_run_%s', to_char(m, 'YYYYMM'));
  UPDATE retired_months SET dropped_at = clock_timestamp(), dropped_by = by_whom WHERE month = m AND sha256 = digest;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION daybook_must_keep, daybook_retire_month FROM PUBLIC;
GRANT EXECUTE ON FUNCTION daybook_must_keep, daybook_retire_month TO daybook_engine;
GRANT SELECT ON retention, retired_months TO daybook_engine;
GRANT UPDATE (owner, lease_until) ON retention TO daybook_engine;
GRANT INSERT (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by),
      UPDATE (file, directory, host, seen_era, snapshot, exported_at, exported_by, verified_at) ON retired_months TO daybook_engine;

-- What a job's stream keeps of its runs that the log has let go of.
CREATE VIEW retired_runs AS
SELECT e.stream_id AS job_id, r.job, m.month, m.sha256, coalesce(r.runs, 0) AS runs, coalesce(r.slots, 0) AS slots, coalesce(r.succeeded, 0) AS succeeded,
       coalesce(r.failed, 0) AS failed, coalesce(r.cancelled, 0) AS cancelled, coalesce(r.skipped, 0) AS skipped,
       r.last_success_at, r.last_failure_at, r.last_success_run, r.last_finished_at, r.last_run
  FROM retired_months m
  JOIN events e ON e.category = 'job' AND e.type = 'RunsRetired' AND e.data->>'sha256' = m.sha256 AND e.data->>'month' = to_char(m.month, 'YYYY-MM') AND e.data->'last' = 'true'
  CROSS JOIN LATERAL jsonb_to_record(e.data) AS r(job text, runs integer, slots integer, succeeded integer, failed integer, cancelled integer, skipped integer,
       last_success_at timestamptz, last_failure_at timestamptz, last_success_run uuid, last_finished_at timestamptz, last_run uuid)
 WHERE m.dropped_at IS NOT NULL;
GRANT SELECT ON retired_runs TO daybook_engine;

CREATE VIEW daybook_audit.retired_months AS
SELECT month, runs, events, bytes, newest_at, position AS last_position, file, sha256, directory, host, exported_at, exported_by, verified_at, dropped_at, dropped_by
  FROM retired_months WHERE dropped_at IS NOT NULL;
GRANT SELECT ON daybook_audit.retired_months TO daybook_engine;
-- +goose StatementBegin
DO $$
BEGIN
  IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'daybook_auditor') THEN
    GRANT SELECT ON daybook_audit.retired_months TO daybook_auditor;
  END IF;
END $$;
-- +goose StatementEnd
