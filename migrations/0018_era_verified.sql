-- +goose Up
-- +goose StatementBegin
-- What a session has verified once as a primary stays so for as long as it lives: a
-- server gets another identity or timeline only by a start or a promotion, and a
-- standby's session, which may live through that, has written nothing before and
-- is not marked. The mark names the era as well: when another one is raised it says
-- nothing. Statements that append compare it themselves, and call this if it differs.
CREATE OR REPLACE FUNCTION daybook_era() RETURNS smallint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  e        eras;
  standby  boolean := pg_is_in_recovery();
  system   text;
  timeline bigint;
BEGIN
  SELECT * INTO e FROM eras ORDER BY era DESC LIMIT 1;
  SELECT s.system_identifier::text INTO system FROM pg_control_system() s;
  timeline := CASE WHEN standby THEN (SELECT c.timeline_id::bigint FROM pg_control_checkpoint() c)
                   ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END;
  IF e.era IS NULL OR e.system_identifier <> system OR e.timeline <> timeline OR e.log <> 'events'::regclass THEN
    RAISE EXCEPTION 'the database is not in the history of era %: it was restored or failed over; check the data, then run `daybook era raise --reason …`', e.era
      USING ERRCODE = 'DB003';
  END IF;
  IF NOT standby THEN
    PERFORM set_config('daybook.era_verified', e.era || '/' || system || '/' || timeline, false); -- a rollback takes it back
  END IF;
  RETURN e.era;
END $$;
-- +goose StatementEnd
