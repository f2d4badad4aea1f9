-- +goose Up
-- Keys of which nobody holds or awaits a place are removed, once they are old
-- enough that one in use is made again no more than now and then.
ALTER TABLE limit_keys ADD COLUMN made_at timestamptz NOT NULL DEFAULT now();
