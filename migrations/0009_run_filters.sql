-- +goose Up
-- Which jobs bear a tag now: runs are listed by the tags of their jobs.
CREATE TABLE job_tags (
  tag    text NOT NULL,
  job_id uuid NOT NULL,
  PRIMARY KEY (tag, job_id)
);
CREATE INDEX job_tags_job ON job_tags (job_id);

-- +goose StatementBegin
CREATE FUNCTION daybook_keep_job_tags() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND NEW.spec->'tags' IS NOT DISTINCT FROM OLD.spec->'tags' THEN
    RETURN NULL;
  END IF;
  DELETE FROM job_tags WHERE job_id = NEW.id;
  INSERT INTO job_tags (tag, job_id)
  SELECT DISTINCT t, NEW.id FROM jsonb_array_elements_text(coalesce(NEW.spec->'tags', '[]')) AS t;
  RETURN NULL;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION daybook_keep_job_tags FROM PUBLIC;
-- An instant moves a job without its definition, and does not come by here.
CREATE TRIGGER job_tags AFTER INSERT OR UPDATE OF spec ON jobs FOR EACH ROW EXECUTE FUNCTION daybook_keep_job_tags();
INSERT INTO job_tags (tag, job_id)
SELECT DISTINCT t, j.id FROM jobs j, jsonb_array_elements_text(coalesce(j.spec->'tags', '[]')) AS t;
GRANT SELECT ON job_tags TO daybook_engine;

CREATE INDEX run_summaries_kind ON run_summaries (kind, state, run_id);
-- Texts are searched for in rows of the index, and only runs with an error have
-- one. By its first column, the same in all, no other index has this order.
CREATE INDEX run_summaries_errors ON run_summaries ((error_type || error_message <> ''), run_id)
  INCLUDE (state, job_id, queue, kind, scheduled_at, error_type, error_message) WHERE error_type || error_message <> '';
-- The primary key has to stay the youngest index, see where they are made first.
ALTER TABLE run_summaries DROP CONSTRAINT run_summaries_pkey;
ALTER TABLE run_summaries ADD PRIMARY KEY (run_id);

-- Pages have room left by rows that did not fit, which later and smaller ones
-- take. One of those must not widen a block range's summary by all between.
DROP INDEX events_position;
CREATE INDEX events_position ON events USING brin (position int8_minmax_multi_ops) WITH (pages_per_range = 128);
