package eventstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// A claim that needs places locks their keys, sees who has them, and inserts
// itself as a holder, all in its transaction: two replicas cannot both find the
// last place free. Keys that another transaction holds are skipped, since a
// claim begins at the due rows and must wait for nobody; their runs are due
// again a moment later.
const keyHeld = 50 * time.Millisecond

// Index: limit_keys_pkey.
const insertLimitKeys = `INSERT INTO limit_keys (key) SELECT k FROM unnest($1::text[]) k ORDER BY k ON CONFLICT DO NOTHING`

// Index: limit_keys_pkey.
const tryLockKeys = `SELECT key FROM limit_keys WHERE key = ANY($1) ORDER BY key FOR UPDATE SKIP LOCKED`

// Index: limit_holders_pkey; waiting_runs_key.
const selectOccupancy = `
SELECT k, h.run_id, x.waiting
  FROM unnest($1::text[]) k
  CROSS JOIN LATERAL (SELECT EXISTS (SELECT 1 FROM waiting_runs w WHERE w.limit_key = k)::int AS waiting) x
  LEFT JOIN limit_holders h ON h.key = k`

// Index: limit_holders_pkey and limit_holders_run are written.
const insertHolders = `INSERT INTO limit_holders (key, run_id) SELECT * FROM unnest($1::text[], $2::uuid[])`

// placement is what a claim's batch comes to once places are decided.
type placement struct {
	claim   []domain.Run
	held    liveRows // due again in a moment: a key was locked
	waiting liveRows
	waitFor []string
	skipped []domain.Run
	reasons []domain.RunSkipped
	replace []uuid.UUID // runs that are asked to stop
	oust    []oust      // waiters that a later instant takes the place of
	keys    []string    // places taken, with
	holders []uuid.UUID // who takes them
}

// oust skips whoever waits for the key in favour of the run.
type oust struct {
	key string
	by  uuid.UUID
}

// place decides which of the taken due runs have the places they need. Most
// lanes need none, and it does nothing for them.
func (s *Store) place(ctx context.Context, tx *txn, taken []domain.Run) (placement, error) {
	specs, err := s.specsFor(ctx, tx, taken)
	if err != nil {
		return placement{}, err
	}
	needs := make(map[uuid.UUID][]domain.Place)
	var keys []string
	for _, r := range taken {
		if p := specs[specKey{r.JobID, r.JobVersion}].Places(r); len(p) > 0 {
			needs[r.ID] = p
			for _, place := range p {
				keys = append(keys, place.Key)
			}
		}
	}
	if len(needs) == 0 {
		return placement{claim: taken}, nil
	}
	slices.Sort(keys)
	taken = slices.Clone(taken)
	slices.SortStableFunc(taken, domain.CompareWaiting)
	occupied, err := s.lockPlaces(ctx, tx, slices.Compact(keys))
	if err != nil {
		return placement{}, err
	}
	var p placement
	for _, r := range taken {
		p.decide(r, needs[r.ID], occupied, tx.now)
	}
	return p, nil
}

// lockPlaces locks what keys it can and tells who has them.
func (s *Store) lockPlaces(ctx context.Context, tx *txn, keys []string) (map[string]domain.Occupancy, error) {
	var locked []string
	if err := tx.query(ctx, tryLockKeys, []any{keys}, appendText(&locked)); err != nil {
		return nil, fmt.Errorf("lock limit keys: %w", err)
	}
	if len(locked) < len(keys) {
		// Held by another transaction, or new. New ones are made outside this
		// transaction: another claimer would wait for it to see whether they stay.
		rest := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(locked, k) })
		if _, err := s.loops.Exec(ctx, insertLimitKeys, rest); err != nil {
			return nil, fmt.Errorf("make limit keys: %w", err)
		}
		if err := tx.query(ctx, tryLockKeys, []any{rest}, appendText(&locked)); err != nil {
			return nil, fmt.Errorf("lock limit keys: %w", err)
		}
	}
	occupied := make(map[string]domain.Occupancy, len(locked))
	err := tx.query(ctx, selectOccupancy, []any{locked}, func(rows pgx.Rows) error {
		var k string
		var holder *uuid.UUID
		var waiting int
		if err := rows.Scan(&k, &holder, &waiting); err != nil {
			return err
		}
		o := occupied[k]
		o.Waiting = waiting
		if holder != nil {
			o.Holders = append(o.Holders, *holder)
		}
		occupied[k] = o
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read who has places: %w", err)
	}
	return occupied, nil
}

func (p *placement) decide(r domain.Run, places []domain.Place, occupied map[string]domain.Occupancy, now time.Time) {
	for _, place := range places {
		if _, locked := occupied[place.Key]; !locked {
			r.ReadyAt = now.Add(keyHeld)
			p.held.add(r)
			return
		}
	}
	v := domain.DecidePlaces(r, places, occupied)
	switch {
	case v.Skip != nil:
		p.skipped, p.reasons = append(p.skipped, r), append(p.reasons, *v.Skip)
	case v.Wait != "":
		o := occupied[v.Wait]
		if v.Replace != uuid.Nil {
			p.replace = append(p.replace, v.Replace)
			if o.Waiting > 0 && r.WaitingSince.IsZero() {
				p.oustWaiters(v.Wait, r.ID)
				o.Waiting = 0
			}
		}
		if r.WaitingSince.IsZero() {
			r.WaitingSince = now
		}
		p.waiting.add(r)
		p.waitFor = append(p.waitFor, v.Wait)
		o.Waiting++
		occupied[v.Wait] = o
	default:
		p.claim = append(p.claim, r)
		for _, k := range v.Take {
			o := occupied[k]
			o.Holders = append(o.Holders, r.ID)
			occupied[k] = o
			p.keys, p.holders = append(p.keys, k), append(p.holders, r.ID)
		}
	}
}

// oustWaiters skips those who wait for the key: in this batch, and in the table.
func (p *placement) oustWaiters(key string, by uuid.UUID) {
	p.oust = append(p.oust, oust{key, by})
	var rest liveRows
	var keys []string
	for i, k := range p.waitFor {
		r := p.waiting.run(i)
		if k == key {
			p.skipped = append(p.skipped, r)
			p.reasons = append(p.reasons, domain.RunSkipped{Reason: domain.SkippedReplace, BlockedBy: &by})
			continue
		}
		rest.add(r)
		keys = append(keys, k)
	}
	p.waiting, p.waitFor = rest, keys
}

// queue adds the writes of what is not claimed.
func (p *placement) queue(ctx context.Context, s *Store, tx *txn, b *pgx.Batch, events *eventRows) error {
	if err := p.skipOusted(ctx, tx); err != nil {
		return err
	}
	for i, r := range p.skipped {
		d, err := domain.DecideRun(r, domain.SkipRun(p.reasons[i]), tx.now)
		if err != nil {
			return err
		}
		if err := events.add(r.ID, r.Version+1, domain.EventTime(r.ChangedAt, tx.now), s.meta(Meta{}), d.Event); err != nil {
			return err
		}
	}
	p.held.queueDue(b)
	if len(p.waitFor) > 0 {
		b.Queue(insertWaiting, append(p.waiting.columns(), column(p.waiting.catchUp), p.waiting.since(), p.waitFor)...)
	}
	if len(p.keys) > 0 {
		b.Queue(insertHolders, p.keys, p.holders)
	}
	return nil
}

// Index: waiting_runs_key. The key is locked by this transaction.
const takeWaiters = `DELETE FROM waiting_runs WHERE limit_key = $1 RETURNING ` + dueColumns

func (p *placement) skipOusted(ctx context.Context, tx *txn) error {
	for _, o := range p.oust {
		var read runReader
		err := tx.query(ctx, takeWaiters, []any{o.key}, func(rows pgx.Rows) error {
			r, err := read.due(rows)
			p.skipped = append(p.skipped, r)
			p.reasons = append(p.reasons, domain.RunSkipped{Reason: domain.SkippedReplace, BlockedBy: &o.by})
			return err
		})
		if err != nil {
			return fmt.Errorf("skip runs that are replaced: %w", err)
		}
	}
	return nil
}
