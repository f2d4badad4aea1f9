package eventstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Whoever closes a claim gives its places back and lets the oldest waiter of
// each go, in the same transaction. The keys are locked before the claims, in
// their order; the waiters are looked for in a later statement, which sees
// whoever was set aside before the key was locked.

// Index: limit_holders_run, limit_keys_pkey.
const lockHeldKeys = `
SELECT key FROM limit_keys WHERE key IN (SELECT key FROM limit_holders WHERE run_id = ANY($1)) ORDER BY key FOR UPDATE`

// Index: claims is scanned; limit_holders_run, limit_keys_pkey.
const lockExpiredKeys = `
SELECT key FROM limit_keys
 WHERE key IN (SELECT h.key FROM claims c JOIN limit_holders h ON h.run_id = c.run_id WHERE c.lease_until <= now())
 ORDER BY key FOR UPDATE`

// Index: limit_holders_run. Only what lies under a locked key can change hands.
const selectHeld = `SELECT key, run_id FROM limit_holders WHERE run_id = ANY($1)`

// Index: limit_holders_pkey; waiting_runs_key and waiting_runs_pkey; the due
// row's indexes are written.
const giveBack = `
WITH gone AS (
  DELETE FROM limit_holders h USING unnest($1::text[], $2::uuid[]) AS u(k, r) WHERE h.key = u.k AND h.run_id = u.r RETURNING h.key),
places AS (SELECT key, count(*) AS n FROM gone GROUP BY key),
turn AS (
  DELETE FROM waiting_runs WHERE run_id IN (
    SELECT w.run_id FROM places p, LATERAL (
      SELECT x.run_id FROM waiting_runs x WHERE x.limit_key = p.key ORDER BY x.waiting_since, x.run_id LIMIT p.n FOR UPDATE SKIP LOCKED) w)
  RETURNING ` + dueColumns + `)
INSERT INTO due_runs (` + dueColumns + `)
SELECT run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, now(),
       version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since FROM turn`

// freed gathers the places that runs give back.
type freed struct {
	keys []string
	runs []uuid.UUID
}

// queue adds the statement that gives the places back. The ready time of a
// waiter whose turn it is must not lie behind the claimers.
func (f *freed) queue(b *pgx.Batch) {
	if len(f.keys) == 0 {
		return
	}
	b.Queue(giveBack, f.keys, f.runs)
	b.Queue("SELECT daybook_expect_fresh()")
}

// free finds the places that the runs, as the commands have left them, give back.
func (c *changes) free(ctx context.Context, tx *txn, keys []string, found map[uuid.UUID]*located) error {
	if len(keys) == 0 {
		return nil
	}
	var ended []uuid.UUID
	for id, l := range found {
		if l.Version != l.before.Version && !l.InHand() {
			ended = append(ended, id)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	err := tx.query(ctx, selectHeld, []any{ended}, func(rows pgx.Rows) error {
		var key string
		var run uuid.UUID
		if err := rows.Scan(&key, &run); err != nil {
			return err
		}
		if found[run].State.Terminal() || !domain.UntilTerminal(key) {
			c.freed.keys, c.freed.runs = append(c.freed.keys, key), append(c.freed.runs, run)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find places to give back: %w", err)
	}
	return nil
}

// A waiter whose place was freed while nobody saw it, by a crash between
// versions of this program or an operator's hand, would wait for ever. Its turn
// costs nothing if it is too early: it is set aside again.
//
// Index: waiting_runs_key, skipping from key to key is left to the planner; the
// table holds waiters only.
const nudge = `
WITH first AS (
  SELECT DISTINCT ON (limit_key) run_id FROM waiting_runs WHERE waiting_since < now() - interval '10 s' ORDER BY limit_key, waiting_since, run_id LIMIT $1),
turn AS (
  DELETE FROM waiting_runs WHERE run_id IN (SELECT x.run_id FROM waiting_runs x JOIN first f ON f.run_id = x.run_id FOR UPDATE OF x SKIP LOCKED)
  RETURNING ` + dueColumns + `)
INSERT INTO due_runs (` + dueColumns + `)
SELECT run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, now(),
       version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since FROM turn`

// NudgeWaiting gives the first waiter of up to limit keys another chance and
// tells how many there were.
func (s *Store) NudgeWaiting(ctx context.Context, limit int) (int, error) {
	tag, err := s.loops.Exec(ctx, nudge, limit)
	if err != nil {
		return 0, fmt.Errorf("look after waiting runs: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
