-- +goose Up
-- The same key with the stream first: it is compared with a dozen entries for each
-- event that is inserted, and the category, a text that is the same in all rows of
-- a partition, was compared first and made the uuid behind it harder to find in the
-- entry. Where there are events the index is built anew, while nobody reads or
-- appends: about a second a million.
ALTER TABLE events DROP CONSTRAINT events_pkey;
ALTER TABLE events ADD PRIMARY KEY (stream_id, version, category);
