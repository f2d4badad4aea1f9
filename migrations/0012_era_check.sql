-- +goose Up
-- +goose StatementBegin
-- Every transaction that appends asks for the era. It asks the server itself, not
-- daybook_history: a function in SQL is parsed and planned anew at each call,
-- which cost more than all else that a small transaction did.
CREATE OR REPLACE FUNCTION daybook_era() RETURNS smallint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  e        eras;
  system   text;
  timeline bigint;
BEGIN
  SELECT * INTO e FROM eras ORDER BY era DESC LIMIT 1;
  SELECT s.system_identifier::text INTO system FROM pg_control_system() s;
  timeline := CASE WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id::bigint FROM pg_control_checkpoint() c)
                   ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END;
  IF e.era IS NULL OR e.system_identifier <> system OR e.timeline <> timeline OR e.log <> 'events'::regclass THEN
    RAISE EXCEPTION 'the database is not in the history of era %: it was restored or failed over; check the data, then run `daybook era raise --reason …`', e.era
      USING ERRCODE = 'DB003';
  END IF;
  RETURN e.era;
END $$;
-- +goose StatementEnd
