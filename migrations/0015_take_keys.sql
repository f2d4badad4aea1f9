-- +goose Up
-- +goose StatementBegin
-- Gives keys to runs, in the order in which the keys come. NULL: every key was
-- new; else the runs whose keys were. ON CONFLICT looks for each key before it
-- inserts it, which costs as much again: it is left for when some key was there.
CREATE FUNCTION daybook_take_keys(jobs uuid[], keys text[], runs uuid[]) RETURNS uuid[]
LANGUAGE plpgsql
AS $$
DECLARE
  taken uuid[];
BEGIN
  BEGIN
    INSERT INTO run_keys (job_id, key, run_id, requested_at)
    SELECT coalesce(jobs[u.i], jobs[1]), u.k, runs[u.i], now() FROM unnest(keys) WITH ORDINALITY AS u(k, i);
    RETURN NULL;
  EXCEPTION WHEN unique_violation THEN
  END;
  WITH won AS (
    INSERT INTO run_keys (job_id, key, run_id, requested_at)
    SELECT coalesce(jobs[u.i], jobs[1]), u.k, runs[u.i], now() FROM unnest(keys) WITH ORDINALITY AS u(k, i)
    ON CONFLICT DO NOTHING RETURNING run_id)
  SELECT coalesce(array_agg(won.run_id), '{}') INTO taken FROM won;
  RETURN taken;
END $$;
-- +goose StatementEnd
