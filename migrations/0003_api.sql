-- +goose Up
-- Who may use the HTTP API. Rows are never deleted: their names stand in events.
CREATE TABLE api_tokens (
  name       text PRIMARY KEY,
  hash       bytea NOT NULL UNIQUE, -- sha256 of a secret of 256 random bits
  scopes     text[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  created_by text NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz,
  revoked_by text NOT NULL DEFAULT ''
);

-- Requests that were given an Idempotency-Key. Whoever has the row until
-- busy_until carries the request out; the answer is kept for repetitions.
CREATE TABLE idempotency_keys (
  principal  text NOT NULL,
  key        text NOT NULL,
  request    bytea NOT NULL, -- sha256 of method, path and body
  busy_until timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  status     smallint, -- of the answer; NULL until there is one
  headers    jsonb,
  body       bytea,
  PRIMARY KEY (principal, key)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

GRANT SELECT, INSERT, UPDATE ON api_tokens TO daybook_engine;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_keys TO daybook_engine;
