-- +goose Up
-- +goose StatementBegin
DO $$
BEGIN
  -- The application's role. It can append to the log and never change it.
  BEGIN
    CREATE ROLE daybook_engine LOGIN;
  EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
      RAISE EXCEPTION 'cannot create the role daybook_engine: create it first (CREATE ROLE daybook_engine LOGIN PASSWORD …), or migrate as a user with CREATEROLE';
  END;
  -- Queue tables are empty when they are analyzed; a plan made then scans them
  -- from end to end for ever after. The role, not the connection string, carries
  -- the settings: a startup parameter does not pass a pooler.
  ALTER ROLE daybook_engine SET enable_seqscan = off;
  ALTER ROLE daybook_engine SET jit = off;
  ALTER ROLE daybook_engine SET plan_cache_mode = force_generic_plan;
  -- A commit that is visible and not durable could be published and then lost.
  ALTER ROLE daybook_engine SET synchronous_commit = on;
  ALTER ROLE daybook_engine SET lock_timeout = '5s';
  ALTER ROLE daybook_engine SET statement_timeout = '30s';
  ALTER ROLE daybook_engine SET idle_in_transaction_session_timeout = '10s';
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'settings of role daybook_engine were not changed; `daybook doctor` names those that are missing';
END $$;
-- +goose StatementEnd

-- xids and snapshots mean something only inside one history of one cluster. An
-- era is such a history; a restore or a failover begins the next.
CREATE TABLE eras (
  era               smallint PRIMARY KEY,
  system_identifier text NOT NULL,
  timeline          bigint NOT NULL,
  raised_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  reason            text NOT NULL
);

-- CACHE 1: a cached range would hand out positions out of order within a stream.
CREATE SEQUENCE event_position AS bigint CACHE 1;

CREATE TABLE events (
  category       text NOT NULL,
  stream_id      uuid NOT NULL,
  version        integer NOT NULL CHECK (version > 0),
  position       bigint NOT NULL DEFAULT nextval('event_position'),
  xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
  era            smallint NOT NULL,
  type           text NOT NULL,
  schema_version smallint NOT NULL DEFAULT 1,
  at             timestamptz NOT NULL,
  actor          text NOT NULL,
  correlation    uuid,
  causation      uuid,
  data           jsonb NOT NULL,
  PRIMARY KEY (category, stream_id, version)
) PARTITION BY LIST (category);
CREATE INDEX events_xid ON events (xid);

CREATE TABLE events_job PARTITION OF events FOR VALUES IN ('job');
CREATE TABLE events_run PARTITION OF events FOR VALUES IN ('run') PARTITION BY RANGE (stream_id);

-- The due instants of all jobs, for ever. A row is the decision to run.
CREATE TABLE run_slots (
  job_id       uuid NOT NULL,
  scheduled_at timestamptz NOT NULL,
  run_id       uuid NOT NULL,
  nominal      text, -- civil time and zone, for schedules of wall times
  PRIMARY KEY (job_id, scheduled_at)
);
-- A civil time runs one time, also when its zone's rules move the instant.
CREATE UNIQUE INDEX run_slots_nominal ON run_slots (job_id, nominal) WHERE nominal IS NOT NULL;

CREATE TABLE run_keys (
  job_id       uuid NOT NULL,
  key          text NOT NULL,
  run_id       uuid NOT NULL,
  requested_at timestamptz NOT NULL,
  PRIMARY KEY (job_id, key)
);

CREATE TABLE jobs (
  id                   uuid PRIMARY KEY,
  name                 text NOT NULL UNIQUE,
  spec                 jsonb NOT NULL,
  version              integer NOT NULL,
  spec_version         integer NOT NULL,
  paused               boolean NOT NULL DEFAULT false,
  pause_reason         text NOT NULL DEFAULT '',
  archived             boolean NOT NULL DEFAULT false,
  next_fire            timestamptz,
  materialized_through timestamptz NOT NULL,
  zone_fingerprint     text NOT NULL DEFAULT '',
  created_at           timestamptz NOT NULL,
  changed_at           timestamptz NOT NULL
);
CREATE INDEX jobs_next_fire ON jobs (next_fire) WHERE next_fire IS NOT NULL;

-- Runs that wait for their time. A row leaves by the claim.
CREATE TABLE due_runs (
  run_id       uuid PRIMARY KEY,
  job_id       uuid NOT NULL,
  job_version  integer NOT NULL,
  origin       text NOT NULL,
  queue        text NOT NULL,
  kind         text NOT NULL,
  priority     smallint NOT NULL,
  scheduled_at timestamptz NOT NULL,
  ready_at     timestamptz NOT NULL,
  version      integer NOT NULL,
  attempt      integer NOT NULL DEFAULT 0,
  dispatches   integer NOT NULL DEFAULT 0,
  claims       integer NOT NULL DEFAULT 0,
  changed_at   timestamptz NOT NULL,
  args         bytea,
  catch_up      boolean NOT NULL DEFAULT false,
  waiting_since timestamptz -- it was set aside for a place, and got its turn
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000);
CREATE INDEX due_runs_lane ON due_runs (queue, kind, priority, ready_at);
CREATE INDEX due_runs_job ON due_runs (job_id);

-- Places of which only so many runs may have one. The key's row is the lock of
-- its places; who has one stands beside it.
CREATE TABLE limit_keys (
  key text PRIMARY KEY
);

CREATE TABLE limit_holders (
  key    text NOT NULL,
  run_id uuid NOT NULL,
  PRIMARY KEY (key, run_id)
);
CREATE INDEX limit_holders_run ON limit_holders (run_id);

-- Runs set aside until a place is free: out of the way of the lane's others.
CREATE TABLE waiting_runs (
  run_id        uuid PRIMARY KEY,
  limit_key     text NOT NULL,
  job_id        uuid NOT NULL,
  job_version   integer NOT NULL,
  origin        text NOT NULL,
  queue         text NOT NULL,
  kind          text NOT NULL,
  priority      smallint NOT NULL,
  scheduled_at  timestamptz NOT NULL,
  ready_at      timestamptz NOT NULL,
  version       integer NOT NULL,
  attempt       integer NOT NULL,
  dispatches    integer NOT NULL,
  claims        integer NOT NULL,
  changed_at    timestamptz NOT NULL,
  args          bytea,
  catch_up      boolean NOT NULL,
  waiting_since timestamptz NOT NULL
);
CREATE INDEX waiting_runs_key ON waiting_runs (limit_key, waiting_since, run_id);
CREATE INDEX waiting_runs_job ON waiting_runs (job_id);

-- Runs in hand. The row is the lease: deleted by the terminal event or the
-- release. Small enough to scan, so no index but the key.
CREATE TABLE claims (
  run_id        uuid PRIMARY KEY,
  claim_id      uuid NOT NULL,
  lease_until   timestamptz NOT NULL,
  start_token   uuid,
  worker        text,
  started_at    timestamptz,
  deadline      timestamptz,
  cancel        boolean NOT NULL DEFAULT false,
  cancel_reason text NOT NULL DEFAULT '',
  job_id        uuid NOT NULL,
  job_version   integer NOT NULL,
  origin        text NOT NULL,
  queue         text NOT NULL,
  kind          text NOT NULL,
  priority      smallint NOT NULL,
  scheduled_at  timestamptz NOT NULL,
  ready_at      timestamptz NOT NULL,
  version       integer NOT NULL,
  attempt       integer NOT NULL,
  dispatches    integer NOT NULL,
  claims        integer NOT NULL,
  changed_at    timestamptz NOT NULL,
  args          bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

-- Rows that could not be processed, out of the way and in sight.
CREATE TABLE parked_runs (
  run_id    uuid PRIMARY KEY,
  job_id    uuid NOT NULL,
  parked_at timestamptz NOT NULL,
  reason    text NOT NULL,
  row       jsonb NOT NULL
);

-- Dispatches committed with the claim that made them and not yet published: one
-- row holds all messages of a claim's transaction.
CREATE TABLE outbox (
  id         uuid PRIMARY KEY,
  owner      text NOT NULL,
  until      timestamptz NOT NULL, -- the owner's, and after a failure the back-off
  created_at timestamptz NOT NULL,
  attempts   integer NOT NULL DEFAULT 0,
  last_error text,
  parked_at  timestamptz,
  messages   integer NOT NULL,
  pack       bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
ALTER TABLE outbox ALTER COLUMN pack SET STORAGE EXTERNAL;

-- The incarnation of the broker's stream that open claims were dispatched to.
CREATE TABLE dispatch_streams (
  name       text PRIMARY KEY,
  created_at timestamptz NOT NULL, -- by the broker's clock
  generation integer NOT NULL DEFAULT 0,
  changed_at timestamptz NOT NULL
);

-- What attempts wrote and returned. Not history: kept for a shorter time.
CREATE TABLE run_outputs (
  run_id      uuid NOT NULL,
  attempt     integer NOT NULL,
  head        bytea,
  tail        bytea,
  total_bytes bigint NOT NULL DEFAULT 0,
  result      jsonb,
  progress    real,
  message     text,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (run_id, attempt)
);

CREATE TABLE workers (
  worker_id  text PRIMARY KEY,
  lanes      jsonb NOT NULL,
  slots      integer NOT NULL,
  version    text NOT NULL,
  host       text NOT NULL,
  first_seen timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE engines (
  engine_id  text PRIMARY KEY,
  roles      text NOT NULL,
  version    text NOT NULL,
  host       text NOT NULL,
  first_seen timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How far each reader of the log is.
CREATE TABLE checkpoints (
  name        text PRIMARY KEY,
  cursor      jsonb NOT NULL,
  owner       text NOT NULL DEFAULT '',
  epoch       bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL DEFAULT '-infinity',
  updated_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

-- +goose StatementBegin
-- The lowest id of a run whose instant is at or after the given time.
CREATE FUNCTION daybook_run_bound(t timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$ SELECT (lpad(to_hex((extract(epoch FROM t) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Makes the monthly partitions for runs whose instants lie from since to until,
-- and tells how many it made. ATTACH, unlike CREATE … PARTITION OF, does not
-- shut out the writers of the other months.
CREATE FUNCTION daybook_ensure_partition(since timestamptz, until timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET timezone = 'UTC'
AS $$
DECLARE
  month timestamptz := date_trunc('month', since);
  leaf  text;
  made  integer := 0;
BEGIN
  IF since < '1970-01-01' OR until < since OR until > since + interval '20 years' THEN
    RAISE EXCEPTION 'partitions from % to %: want an ordered range after 1970 of at most 20 years', since, until
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('daybook_ensure_partition'));
  WHILE month <= until LOOP
    leaf := 'events_run_' || to_char(month, 'YYYYMM');
    IF to_regclass(leaf) IS NULL THEN
      EXECUTE format('CREATE TABLE %I (LIKE events_run INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', leaf);
      EXECUTE format('ALTER TABLE events_run ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        leaf, daybook_run_bound(month), daybook_run_bound(month + interval '1 month'));
      made := made + 1;
    END IF;
    month := month + interval '1 month';
  END LOOP;
  RETURN made;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- The history this server is in now, for comparison with the newest era.
CREATE FUNCTION daybook_history(OUT system_identifier text, OUT timeline bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT s.system_identifier::text,
         CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id::bigint FROM pg_control_checkpoint())
              ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END
    FROM pg_control_system() s
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Begins the next era. The lock waits for every transaction that still appends
-- to the old one and holds back those that would: they find the era changed.
CREATE FUNCTION daybook_raise_era(why text) RETURNS smallint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  raised smallint;
BEGIN
  LOCK TABLE events IN SHARE MODE;
  INSERT INTO eras (era, system_identifier, timeline, reason)
  SELECT coalesce((SELECT max(era) FROM eras), 0) + 1, h.system_identifier, h.timeline, why FROM daybook_history() h
  RETURNING era INTO raised;
  RETURN raised;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Ends a transaction that changed other than what it decided to change. Zero
-- rows is never success, and the commit is on its way in the same message.
CREATE FUNCTION daybook_expect(what text, have bigint, want bigint) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
  IF have <> want THEN
    RAISE EXCEPTION '%: changed % rows, decided on %', what, have, want USING ERRCODE = 'DB001';
  END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Ends a transaction that is about to commit runs ready at a time which claimers
-- may already look behind: they look back ten seconds.
CREATE FUNCTION daybook_expect_fresh() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
  IF clock_timestamp() - now() > interval '8 seconds' THEN
    RAISE EXCEPTION 'transaction took % and would commit runs behind the claimers', clock_timestamp() - now() USING ERRCODE = 'DB002';
  END IF;
END $$;
-- +goose StatementEnd

SELECT daybook_raise_era('installed');
SELECT daybook_ensure_partition(now() - interval '1 month', now() + interval '3 months');

REVOKE ALL ON FUNCTION daybook_ensure_partition, daybook_raise_era, daybook_history FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO daybook_engine;
GRANT EXECUTE ON FUNCTION daybook_ensure_partition, daybook_raise_era, daybook_history, daybook_run_bound TO daybook_engine;
GRANT SELECT, INSERT ON events, run_slots, run_keys TO daybook_engine;
GRANT USAGE ON SEQUENCE event_position TO daybook_engine;
GRANT SELECT ON eras, goose_db_version TO daybook_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON
  jobs, due_runs, waiting_runs, limit_keys, limit_holders, claims, parked_runs, outbox, dispatch_streams, run_outputs, workers, engines, checkpoints TO daybook_engine;
