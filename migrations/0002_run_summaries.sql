-- +goose Up
-- One row a run: what lists and statistics ask for, folded from the log. The
-- table can be thrown away and made again (see daybook_rebuild_begin).
--
-- A run's id begins with its instant, so run_id is the order of time: every list
-- is newest first by run_id alone. State is part of each index but the key, so
-- that twelve failures among a million successes are read, not searched for; a
-- list of several states merges one range of each.
CREATE TABLE run_summaries (
  run_id           uuid NOT NULL,
  version          integer NOT NULL, -- of the last event folded in
  state            text NOT NULL,
  job_id           uuid NOT NULL,
  job              text NOT NULL,
  job_version      integer NOT NULL,
  queue            text NOT NULL,
  kind             text NOT NULL,
  priority         smallint NOT NULL,
  origin           text NOT NULL,
  key              text NOT NULL,
  catch_up         boolean NOT NULL,
  retry_of         uuid,
  scheduled_at     timestamptz NOT NULL,
  ready_at         timestamptz NOT NULL,
  attempt          integer NOT NULL,
  dispatches       integer NOT NULL,
  claims           integer NOT NULL,
  claim_id         uuid,             -- of the open claim
  cancel_requested boolean NOT NULL, -- of the open claim
  worker           text NOT NULL,    -- these three are of the latest claim
  claimed_at       timestamptz,
  started_at       timestamptz,
  first_started_at timestamptz,
  finished_at      timestamptz,
  changed_at       timestamptz NOT NULL,
  error_type       text NOT NULL,    -- of the last failed attempt, until one succeeds
  error_message    text NOT NULL,    -- its first KiB
  reason           text NOT NULL,    -- of a cancel or a skip
  blocked_by       uuid
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 20000);
-- The order of these matters while the table is small: all indexes cost the same
-- then, and of those that hold a query's columns, first or not, the planner takes
-- the youngest. A plan made in the first minute must still do when the table has
-- grown by millions.
CREATE INDEX run_summaries_queue ON run_summaries (queue, state, run_id);
CREATE INDEX run_summaries_job ON run_summaries (job_id, state, run_id);
CREATE INDEX run_summaries_state ON run_summaries (state, run_id);
ALTER TABLE run_summaries ADD PRIMARY KEY (run_id);

-- Counts and latest outcomes of each job. Every column is a sum or a maximum, so
-- the order in which runs are counted does not matter.
CREATE TABLE job_stats (
  job_id           uuid PRIMARY KEY,
  job              text NOT NULL,
  succeeded        bigint NOT NULL,
  failed           bigint NOT NULL,
  cancelled        bigint NOT NULL,
  skipped          bigint NOT NULL,
  last_success_at  timestamptz,
  last_failure_at  timestamptz,
  last_success_run uuid, -- the newest by instant that succeeded
  last_finished_at timestamptz NOT NULL,
  last_run_id      uuid NOT NULL -- the one that finished last
) WITH (fillfactor = 50);

-- Streams with an event that a projection could not apply. They are tried again;
-- meanwhile the other streams go on.
CREATE TABLE projection_parked (
  projection text NOT NULL,
  stream_id  uuid NOT NULL,
  category   text NOT NULL,
  version    integer NOT NULL, -- of the first event not applied
  position   bigint NOT NULL,
  reason     text NOT NULL,
  at         timestamptz NOT NULL,
  tried_at   timestamptz NOT NULL,
  PRIMARY KEY (projection, stream_id)
);
CREATE INDEX projection_parked_tried ON projection_parked (projection, tried_at);

-- +goose StatementBegin
-- The tables of a projection that can be rebuilt.
CREATE FUNCTION daybook_projection_tables(projection text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
  IF projection = 'run_summaries' THEN
    RETURN ARRAY['run_summaries', 'job_stats'];
  END IF;
  RAISE EXCEPTION 'projection "%" has no tables that can be rebuilt', projection USING ERRCODE = 'invalid_parameter_value';
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Makes an empty copy, named …_next, of each table of the projection: columns,
-- indexes, storage parameters and privileges. An unfinished earlier one goes.
CREATE FUNCTION daybook_rebuild_begin(projection text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  name text;
  acl  record;
BEGIN
  FOREACH name IN ARRAY daybook_projection_tables(projection) LOOP
    EXECUTE format('DROP TABLE IF EXISTS %I', name || '_next');
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (%s)', name || '_next', name,
      (SELECT array_to_string(reloptions, ', ') FROM pg_class WHERE oid = name::regclass));
    FOR acl IN SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS who
                 FROM pg_class, aclexplode(relacl) WHERE oid = name::regclass AND grantee <> relowner LOOP
      EXECUTE format('GRANT %s ON %I TO %s', acl.privilege_type, name || '_next', acl.who);
    END LOOP;
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Puts the …_next tables in the place of the old ones, which are dropped. The
-- indexes get the names of those that they replace.
CREATE FUNCTION daybook_rebuild_swap(projection text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  name   text;
  names  text[];
  fresh  text[];
  shape  CONSTANT text := '^CREATE (UNIQUE )?INDEX \S+ ON \S+ ';
BEGIN
  FOREACH name IN ARRAY daybook_projection_tables(projection) LOOP
    EXECUTE format('LOCK TABLE %I, %I IN ACCESS EXCLUSIVE MODE', name, name || '_next');
    SELECT array_agg(o.relname ORDER BY o.relname), array_agg(n.relname ORDER BY o.relname) INTO names, fresh
      FROM pg_index oi JOIN pg_class o ON o.oid = oi.indexrelid
      JOIN pg_index ni ON regexp_replace(pg_get_indexdef(ni.indexrelid), shape, '\1') = regexp_replace(pg_get_indexdef(oi.indexrelid), shape, '\1')
      JOIN pg_class n ON n.oid = ni.indexrelid
     WHERE oi.indrelid = name::regclass AND ni.indrelid = (name || '_next')::regclass;
    EXECUTE format('ALTER TABLE %I RENAME TO %I', name, name || '_old');
    EXECUTE format('ALTER TABLE %I RENAME TO %I', name || '_next', name);
    FOR i IN 1 .. cardinality(names) LOOP
      EXECUTE format('ALTER INDEX %I RENAME TO %I', names[i], names[i] || '_old');
      EXECUTE format('ALTER INDEX %I RENAME TO %I', fresh[i], names[i]);
    END LOOP;
  END LOOP;
  -- Views follow a table, not its name.
  IF to_regproc('daybook_make_run_view') IS NOT NULL THEN
    PERFORM daybook_make_run_view();
  END IF;
  FOREACH name IN ARRAY daybook_projection_tables(projection) LOOP
    EXECUTE format('DROP TABLE %I', name || '_old');
  END LOOP;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION daybook_rebuild_begin, daybook_rebuild_swap FROM PUBLIC;
GRANT EXECUTE ON FUNCTION daybook_rebuild_begin, daybook_rebuild_swap TO daybook_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON run_summaries, job_stats, projection_parked TO daybook_engine;
-- How far the log has come, to tell how far behind a projection is.
GRANT SELECT ON SEQUENCE event_position TO daybook_engine;
