package eventstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
//
// The keys were locked by a statement before the one that locked the claims. A
// command that does not come from a claim's worker may end a claim that was
// committed between the two; its keys are not locked then, and it is decided
// again. A worker knows of its claim only after the commit.
func (c *changes) free(ctx context.Context, tx *txn, keys []string, unfenced bool, runs []*located) error {
	if len(keys) == 0 && !unfenced {
		return nil
	}
	var ended []uuid.UUID
	found := make(map[uuid.UUID]*located, len(runs))
	for _, l := range runs {
		if l.Version != l.before.version && !l.InHand() {
			ended = append(ended, l.ID)
			found[l.ID] = l
		}
	}
	if len(ended) == 0 {
		return nil
	}
	ended = distinct(ended)
	err := tx.query(ctx, selectHeld, []any{ended}, func(rows pgx.Rows) error {
		var key string
		var run uuid.UUID
		if err := rows.Scan(&key, &run); err != nil {
			return err
		}
		if !slices.Contains(keys, key) {
			return errLookAgain
		}
		if found[run].State.Terminal() || !domain.UntilTerminal(key) {
			c.freed.keys, c.freed.runs = append(c.freed.keys, key), append(c.freed.runs, run)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errLookAgain) {
		err = fmt.Errorf("find places to give back: %w", err)
	}
	if err != nil {
		return err
	}
	return nil
}

// A waiter whose place was freed while nobody saw it, by a crash between
// versions of this program or an operator's hand, would wait for ever. Its turn
// costs nothing if it is too early: it is set aside again.
//
// Index: waiting_runs_key, from key to key; a key with a million waiters is one
// step.
const nudge = `
WITH RECURSIVE keys AS (
  (SELECT limit_key AS k FROM waiting_runs WHERE limit_key > $2 ORDER BY limit_key LIMIT 1)
  UNION ALL
  SELECT (SELECT w.limit_key FROM waiting_runs w WHERE w.limit_key > keys.k ORDER BY w.limit_key LIMIT 1) FROM keys WHERE keys.k IS NOT NULL),
page AS (SELECT k FROM keys WHERE k IS NOT NULL LIMIT $1),
first AS (
  SELECT f.run_id FROM page, LATERAL (
    SELECT w.run_id FROM waiting_runs w WHERE w.limit_key = page.k AND w.waiting_since < now() - interval '10 s'
     ORDER BY w.waiting_since, w.run_id LIMIT 1) f),
turn AS (
  DELETE FROM waiting_runs WHERE run_id IN (SELECT x.run_id FROM waiting_runs x JOIN first f ON f.run_id = x.run_id FOR UPDATE OF x SKIP LOCKED)
  RETURNING ` + dueColumns + `),
due AS (
  INSERT INTO due_runs (` + dueColumns + `)
  SELECT run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, now(),
         version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since FROM turn)
SELECT (SELECT count(*) FROM turn), coalesce((SELECT max(k) FROM page), ''), (SELECT count(*) FROM page)`

// NudgeWaiting gives the first waiter of up to limit keys after the given one
// another chance. It tells how many there were and after which key to go on;
// empty begins again.
func (s *Store) NudgeWaiting(ctx context.Context, limit int, after string) (nudged int, next string, err error) {
	var keys int
	if err := s.loops.QueryRow(ctx, nudge, limit, after).Scan(&nudged, &next, &keys); err != nil {
		return 0, after, fmt.Errorf("look after waiting runs: %w", err)
	}
	if keys < limit {
		next = ""
	}
	return nudged, next, nil
}
