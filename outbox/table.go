package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookhq/daybook/internal/crashpoint"
)

// The packs that nobody has any more, those that have waited longest first. SKIP LOCKED gives relays disjoint ones;
// the condition is evaluated again on a row that changed before it was locked.
//
// Index: none for the search, since the table holds only what is not published yet; outbox_pkey for the UPDATE. The
// packs' bytes lie outside the row and are neither read by the search nor written again.
const leasePacks = `
WITH over AS (
  SELECT id FROM outbox
   WHERE until <= now() AND parked_at IS NULL AND id <> ALL ($4::uuid[])
   ORDER BY until LIMIT $3 FOR UPDATE SKIP LOCKED)
UPDATE outbox o SET owner = $1, until = now() + $2::interval FROM over WHERE o.id = over.id
RETURNING o.id, o.until, o.created_at, o.attempts, o.pack, now()`

// poll leases packs from the table, except those that are here already.
func (r *Relay) poll(ctx context.Context, here []uuid.UUID) error {
	if err := r.prune(ctx); err != nil {
		return err
	}
	most := 2 * r.InFlight
	asked := time.Now()
	rows, err := r.DB.Query(ctx, leasePacks, r.Owner, r.leaseFor(), most, here)
	if err != nil {
		return fmt.Errorf("lease packs: %w", err)
	}
	var packs []*pack
	var spoilt []spoiltPack
	found := 0
	for rows.Next() {
		var id uuid.UUID
		var until, created, now time.Time
		var attempts int
		var raw []byte
		if err := rows.Scan(&id, &until, &created, &attempts, &raw, &now); err != nil {
			rows.Close()
			return fmt.Errorf("lease packs: %w", err)
		}
		found++
		messages, err := decodePack(raw)
		if err != nil {
			spoilt = append(spoilt, spoiltPack{id, until, now.Sub(created), err})
			continue
		}
		p := newPack(id, messages)
		p.until, p.attempts, p.clock = until, attempts, clock{database: now, local: asked}
		packs = append(packs, p)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("lease packs: %w", err)
	}
	if found > 0 {
		if err := crashpoint.Err(crashpoint.RelayPostPoll); err != nil {
			return err // the lease of the packs runs out
		}
	}
	r.count.recovered.Add(uint64(len(packs)))
	if found == most {
		r.desk.pollBy(time.Now()) // there may be more
	}
	r.desk.put(packs)
	return r.parkSpoilt(ctx, spoilt)
}

type spoiltPack struct {
	id    uuid.UUID
	until time.Time
	age   time.Duration
	cause error
}

// foreignFor is how long a pack of an unknown version is left to relays that may know it. By then its leases are over.
const foreignFor = 15 * time.Minute

// Index: outbox_pkey.
const parkWhole = `
UPDATE outbox SET parked_at = now(), attempts = attempts + 1, last_error = $4 WHERE id = $1 AND owner = $2 AND until = $3`

func (r *Relay) parkSpoilt(ctx context.Context, packs []spoiltPack) (err error) {
	for _, p := range packs {
		if errors.Is(p.cause, errPackVersion) && p.age < foreignFor {
			r.Logger.Warn("pack left to a relay of another version", "pack", p.id, "error", p.cause)
			continue
		}
		r.Logger.Error("pack cannot be read and is parked; its runs wait for the end of their lease", "pack", p.id, "error", p.cause)
		if _, e := r.DB.Exec(ctx, parkWhole, p.id, r.Owner, p.until, clean(p.cause.Error())); e != nil {
			err = errors.Join(err, fmt.Errorf("park pack %s: %w", p.id, e))
		}
	}
	return err
}

// Index: outbox_pkey.
const keepFailed = `
UPDATE outbox SET messages = $4, pack = $5, attempts = attempts + 1, last_error = $6, until = now() + $7::interval
 WHERE id = $1 AND owner = $2 AND until = $3`

// Index: outbox_pkey.
const keepParked = `
UPDATE outbox SET messages = $4, pack = $5, attempts = attempts + 1, last_error = $6, parked_at = now()
 WHERE id = $1 AND owner = $2 AND until = $3`

// The parked messages of a pack of which others are to be tried again. Must run before the row's until changes.
//
// Index: outbox_pkey.
const splitParked = `
INSERT INTO outbox (id, owner, until, created_at, attempts, last_error, parked_at, messages, pack)
SELECT $4, owner, until, created_at, attempts + 1, $5, now(), $6, $7 FROM outbox WHERE id = $1 AND owner = $2 AND until = $3`

// record keeps of a pack just what failed. It reports false, and changes nothing, if the pack is no longer ours.
func (r *Relay) record(ctx context.Context, p *pack, v verdict, pause time.Duration) (held bool, err error) {
	b := &pgx.Batch{} // one transaction, since it is one message to the server
	queue := func(sql string, args ...any) {
		b.Queue(sql, append([]any{p.id, r.Owner, p.until}, args...)...).Exec(func(tag pgconn.CommandTag) error {
			held = tag.RowsAffected() == 1
			return nil
		})
	}
	if len(v.parked) > 0 {
		row, err := encodePack(v.parked)
		if err != nil {
			return false, err
		}
		if len(v.retry) > 0 {
			queue(splitParked, uuid.Must(uuid.NewV7()), v.parkedWhy(), len(v.parked), row)
		} else {
			queue(keepParked, len(v.parked), row, v.parkedWhy())
		}
	}
	if len(v.retry) > 0 {
		row, err := encodePack(v.retry)
		if err != nil {
			return false, err
		}
		queue(keepFailed, len(v.retry), row, v.why, pause)
	}
	if err := r.DB.SendBatch(ctx, b).Close(); err != nil {
		return false, err
	}
	return held, nil
}

func (v verdict) parkedWhy() string {
	texts := make([]string, len(v.reasons))
	for i, why := range v.reasons {
		texts[i] = why.text
	}
	return clean(strings.Join(texts, "; "))
}

// Rows that a claim's transaction has locked are on their way out, or come back when it fails: then the pack is
// published again under the same ids.
//
// Index: outbox_pkey.
const deleteIdle = `
DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED)`

// flush deletes published packs that no claim has taken along in time, or all there are.
func (r *Relay) flush(ctx context.Context, all bool) error {
	ids := r.desk.overdue(all)
	if len(ids) == 0 {
		return nil
	}
	if err := crashpoint.Err(crashpoint.RelayPreDelete); err != nil {
		return r.database(ctx, err)
	}
	if _, err := r.DB.Exec(ctx, deleteIdle, ids); err != nil {
		return r.database(ctx, fmt.Errorf("delete %d published packs: %w", len(ids), err))
	}
	r.desk.settle(ids)
	return r.database(ctx, nil)
}

// Index: none, as leasePacks.
const deleteParked = `
DELETE FROM outbox WHERE id IN (
  SELECT id FROM outbox WHERE parked_at < now() - $1::interval LIMIT 1000 FOR UPDATE SKIP LOCKED)`

// prune deletes packs that have been parked for too long, so that the table stays what it is taken for.
func (r *Relay) prune(ctx context.Context) error {
	last, now := r.pruned.Load(), time.Now().UnixNano()
	if now-last < int64(pruneEvery) || !r.pruned.CompareAndSwap(last, now) {
		return nil
	}
	tag, err := r.DB.Exec(ctx, deleteParked, r.KeepParked)
	if err != nil {
		r.pruned.Store(last)
		return fmt.Errorf("delete packs parked for more than %s: %w", r.KeepParked, err)
	}
	if n := tag.RowsAffected(); n > 0 {
		r.Logger.Info("deleted packs that were parked for too long", "packs", n)
	}
	return nil
}
