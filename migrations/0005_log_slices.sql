-- +goose Up
-- Readers far behind read the log by ranges of positions. Rows lie in their
-- order, so a summary of each block range finds them, which costs a writer next
-- to nothing; a tree would cost it as much as that of xids.
CREATE INDEX events_position ON events USING brin (position) WITH (pages_per_range = 64);

-- +goose StatementBegin
-- Summarises what was appended since it was done last; vacuum does so, too, but
-- seldom. What is not summarised is read by every reader far behind. One at a
-- time: it waits for no other.
CREATE FUNCTION daybook_summarize_events() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '1s'
AS $$
DECLARE
  leaf regclass;
  made bigint := 0;
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('daybook_summarize_events')) THEN
    RETURN 0;
  END IF;
  FOR leaf IN SELECT t.relid FROM pg_partition_tree('events_position') t WHERE t.isleaf LOOP
    made := made + brin_summarize_new_values(leaf);
  END LOOP;
  RETURN made;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION daybook_summarize_events FROM PUBLIC;
GRANT EXECUTE ON FUNCTION daybook_summarize_events TO daybook_engine;

-- Where the era before it ends.
ALTER TABLE eras ADD COLUMN position bigint NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION daybook_raise_era(why text) RETURNS smallint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  raised smallint;
BEGIN
  LOCK TABLE events IN SHARE MODE;
  INSERT INTO eras (era, system_identifier, timeline, reason, position)
  SELECT coalesce((SELECT max(era) FROM eras), 0) + 1, h.system_identifier, h.timeline, why,
         (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_position)
    FROM daybook_history() h
  RETURNING era INTO raised;
  RETURN raised;
END $$;
-- +goose StatementEnd
UPDATE eras e SET position = coalesce((SELECT max(position) FROM events WHERE era < e.era), 0) WHERE e.era > 1;
