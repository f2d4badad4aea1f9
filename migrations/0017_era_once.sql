-- +goose Up
-- +goose StatementBegin
-- The identity of a server cannot change beneath a session, and asking for it reads
-- a file: each session asks once. The timeline is asked for every time, since a
-- standby's sessions live on when it is promoted.
CREATE OR REPLACE FUNCTION daybook_era() RETURNS smallint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  e        eras;
  system   text := current_setting('daybook.system_identifier', true);
  timeline bigint;
BEGIN
  SELECT * INTO e FROM eras ORDER BY era DESC LIMIT 1;
  IF coalesce(system, '') = '' THEN -- '' is what is left of it after a rollback
    SELECT s.system_identifier::text INTO system FROM pg_control_system() s;
    PERFORM set_config('daybook.system_identifier', system, false);
  END IF;
  timeline := CASE WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id::bigint FROM pg_control_checkpoint() c)
                   ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END;
  IF e.era IS NULL OR e.system_identifier <> system OR e.timeline <> timeline OR e.log <> 'events'::regclass THEN
    RAISE EXCEPTION 'the database is not in the history of era %: it was restored or failed over; check the data, then run `daybook era raise --reason …`', e.era
      USING ERRCODE = 'DB003';
  END IF;
  RETURN e.era;
END $$;
-- +goose StatementEnd
