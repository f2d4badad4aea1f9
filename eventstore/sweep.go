package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// keyAge is how old a key must be to be removed. A key that comes and goes with
// every run, as that of an overlap policy does, is made anew that often at most.
const keyAge = time.Hour

// Index: limit_keys_pkey.
const pageOfKeys = `SELECT coalesce(max(key), ''), count(*) FROM (SELECT key FROM limit_keys WHERE key > $1 ORDER BY key LIMIT $2) page`

// Whether a key is idle is asked again below: the lock does not see a claim that
// took a place, and committed, after this statement's snapshot.
//
// Index: limit_keys_pkey, limit_holders_pkey, waiting_runs_key.
const lockIdleKeys = `
SELECT k.key FROM (SELECT key FROM limit_keys WHERE key > $1 ORDER BY key LIMIT $2) page JOIN limit_keys k ON k.key = page.key
 WHERE k.made_at < now() - $3::interval
   AND NOT EXISTS (SELECT 1 FROM limit_holders h WHERE h.key = k.key)
   AND NOT EXISTS (SELECT 1 FROM waiting_runs w WHERE w.limit_key = k.key)
 ORDER BY k.key FOR UPDATE OF k SKIP LOCKED`

// A place is taken under the key's lock, which this transaction has: what this
// statement's snapshot does not see cannot be there. A holder whose key is gone
// would keep its place for ever.
//
// Index: limit_keys_pkey, limit_holders_pkey, waiting_runs_key.
const deleteIdleKeys = `
DELETE FROM limit_keys k WHERE k.key = ANY($1)
   AND NOT EXISTS (SELECT 1 FROM limit_holders h WHERE h.key = k.key)
   AND NOT EXISTS (SELECT 1 FROM waiting_runs w WHERE w.limit_key = k.key)`

// SweepKeys looks at up to limit keys of places after the given one and removes
// those that are old and that nobody holds or awaits a place of. It tells after
// which key to go on; empty begins again. Claims and closes neither wait for it
// nor fail by it: a claim that finds the key gone makes it again.
func (s *Store) SweepKeys(ctx context.Context, limit int, after string) (removed int, next string, err error) {
	seen := 0
	var idle []string
	tx, err := beginWith(ctx, s.loops,
		query{pageOfKeys, []any{after, limit}, func(rows pgx.Rows) error { return rows.Scan(&next, &seen) }},
		query{lockIdleKeys, []any{after, limit, keyAge}, appendText(&idle)})
	if err != nil {
		return 0, after, fmt.Errorf("look for idle limit keys: %w", err)
	}
	defer tx.rollback(ctx)
	if seen < limit {
		next = ""
	}
	if len(idle) == 0 {
		return 0, next, nil
	}
	s.pausing("sweep")
	b := &pgx.Batch{}
	b.Queue(deleteIdleKeys, idle).Exec(func(tag pgconn.CommandTag) error {
		removed = int(tag.RowsAffected())
		return nil
	})
	if err := tx.commit(ctx, b); err != nil {
		return 0, after, fmt.Errorf("remove idle limit keys: %w", err)
	}
	return removed, next, nil
}
