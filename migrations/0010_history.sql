-- +goose Up

-- What tells one history from another is, besides the cluster and its timeline,
-- the table itself: rows that were restored are in another one, on the same
-- server too.
ALTER TABLE eras ADD COLUMN log oid;
UPDATE eras SET log = 'events'::regclass;
ALTER TABLE eras ALTER COLUMN log SET NOT NULL;

-- +goose StatementBegin
-- As before, with the table.
CREATE OR REPLACE FUNCTION daybook_raise_era(why text) RETURNS smallint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  raised smallint;
BEGIN
  LOCK TABLE events IN SHARE MODE;
  INSERT INTO eras (era, system_identifier, timeline, log, reason, position)
  SELECT coalesce((SELECT max(era) FROM eras), 0) + 1, h.system_identifier, h.timeline, 'events'::regclass, why,
         (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_position)
    FROM daybook_history() h
  RETURNING era INTO raised;
  RETURN raised;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
-- The era to append in. It is asked for by the statement that appends, because a
-- connection may outlive the server behind it: through a pooler a session goes on
-- after a failover as if nothing had happened.
CREATE FUNCTION daybook_era() RETURNS smallint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  e eras;
  h record;
BEGIN
  SELECT * INTO e FROM eras ORDER BY era DESC LIMIT 1;
  SELECT * INTO h FROM daybook_history();
  IF e.era IS NULL OR e.system_identifier <> h.system_identifier OR e.timeline <> h.timeline OR e.log <> 'events'::regclass THEN
    RAISE EXCEPTION 'the database is not in the history of era %: it was restored or failed over; check the data, then run `daybook era raise --reason …`', e.era
      USING ERRCODE = 'DB003';
  END IF;
  RETURN e.era;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION daybook_era FROM PUBLIC;
GRANT EXECUTE ON FUNCTION daybook_era TO daybook_engine;
