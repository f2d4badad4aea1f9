-- +goose Up
-- What had not ended at an instant lies near it in the table: ranges of blocks are
-- left out that ended before, and those that began after.
DROP INDEX run_summaries_finished;
CREATE INDEX run_summaries_finished ON run_summaries USING brin (finished_at, scheduled_at) WITH (pages_per_range = 32, autosummarize = on);
-- Runs that were asked for can be made long before their time.
CREATE INDEX run_summaries_asked ON run_summaries (scheduled_at) WHERE origin <> 'schedule';
