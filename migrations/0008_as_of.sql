-- +goose Up
-- What had not ended at an instant: summaries of block ranges leave out what
-- ended before, at next to no cost for the follower.
CREATE INDEX run_summaries_finished ON run_summaries USING brin (finished_at) WITH (pages_per_range = 32, autosummarize = on);
