-- +goose Up
-- Runs of a queue and a kind, which are otherwise searched for among those of
-- the kind.
CREATE INDEX run_summaries_lane ON run_summaries (queue, kind, state, run_id);
-- The primary key has to stay the youngest index, see 0002.
ALTER TABLE run_summaries DROP CONSTRAINT run_summaries_pkey;
ALTER TABLE run_summaries ADD PRIMARY KEY (run_id);
