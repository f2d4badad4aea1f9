package eventstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// The reaper's guard is the condition on lease_until: FOR UPDATE evaluates it
// again on the row as it is after the lock, so a lease renewed meanwhile is left
// alone. Skipping locked rows is safe: whoever holds one is renewing or closing
// it, and the next pass looks again.
//
// Index: none. The table holds the runs in hand and is scanned.
const lockExpired = `SELECT ` + claimColumns + ` FROM claims WHERE lease_until <= now() ORDER BY run_id LIMIT $1 FOR UPDATE SKIP LOCKED`

// When the broker's stream was last found to be another. The messages of claims
// from before may have gone down with the old one. Index: none; a row or two.
const streamChanged = `SELECT max(changed_at) FROM dispatch_streams WHERE generation > 0`

// Expired is a claim that the reaper closed.
type Expired struct {
	Run   domain.Run // after
	Event domain.RunEvent
	Held  time.Duration // how long past its lease the claim was closed
}

// ExpireClaims closes up to limit claims whose lease is over: a run that was
// started is charged and tried again or fails, one that was not is released. A
// run whose message may have gone down with the broker's stream is not put off.
// If one claim cannot be closed the others still are, and it is reported in the
// error.
func (s *Store) ExpireClaims(ctx context.Context, limit int) ([]Expired, error) {
	var out []Expired
	var looked uuid.UUID
	err := again(ctx, func() (err error) {
		out, looked, err = s.expire(ctx, limit)
		return err
	})
	switch {
	case err == nil || !blamesRow(err):
		return out, err
	case limit > 1:
		return s.ExpireClaims(ctx, limit/2)
	case looked == uuid.Nil:
		return nil, err
	}
	return nil, s.putOff(ctx, looked, err)
}

// Index: claims_pkey.
const putOffExpired = `UPDATE claims SET lease_until = now() + interval '1 minute' WHERE run_id = $1 AND lease_until <= now() RETURNING run_id`

// putOff gets a claim that cannot be closed out of the way of the others, to be
// tried again a minute later. It always returns an error: *ParkedError when it
// worked.
func (s *Store) putOff(ctx context.Context, run uuid.UUID, cause error) error {
	if err := s.ops.QueryRow(ctx, putOffExpired, run).Scan(&run); err != nil {
		return errors.Join(cause, err)
	}
	return &ParkedError{Run: run, Reason: cause}
}

// expire also tells which claim it looked at first: the one to blame when it is
// alone.
func (s *Store) expire(ctx context.Context, limit int) (out []Expired, looked uuid.UUID, err error) {
	var found []*located
	var commands []Command
	var keys []string
	var changed *time.Time
	var read runReader
	tx, err := beginWith(ctx, s.ops, query{lockExpiredKeys, nil, appendText(&keys)}, query{streamChanged, nil, func(rows pgx.Rows) error {
		return rows.Scan(&changed)
	}}, query{s.sql.lockExpired, []any{limit}, func(rows pgx.Rows) error {
		r, err := read.claim(rows)
		found = append(found, &located{Run: r, before: was(r), at: inClaims})
		excused := changed != nil && !r.ChangedAt.After(*changed)
		commands = append(commands, Command{RunID: r.ID, Do: domain.ExpireRun{Excused: excused}})
		if looked == uuid.Nil {
			looked = r.ID
		}
		return err
	}})
	if err != nil {
		return nil, looked, err
	}
	defer tx.rollback(ctx)
	if len(commands) == 0 {
		return nil, looked, nil
	}
	if err := crashpoint.Err(crashpoint.ReaperPostSelect); err != nil {
		return nil, looked, err
	}
	answers, changes, err := s.decide(ctx, tx, commands, keys, found, nil)
	if err != nil {
		return nil, looked, err
	}
	b := &pgx.Batch{}
	if changes.queue(b, s.sql) {
		s.pausing("expire")
		crashpoint.At(crashpoint.ReaperPreCommit)
		if err := tx.commit(ctx, b); err != nil {
			return nil, looked, conflict(err)
		}
		if err := crashpoint.Err(crashpoint.ReaperPostCommit); err != nil {
			return nil, looked, err
		}
	}
	var errs []error
	for i, a := range answers {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		held := tx.now.Sub(found[i].before.lease)
		out = append(out, Expired{Run: a.Run, Event: a.Event, Held: held})
	}
	return out, looked, errors.Join(errs...)
}

// Beat asks to renew the lease of one claim.
type Beat struct {
	RunID, ClaimID uuid.UUID
	Progress       *float32
	Message        string
}

// Beaten is the answer to a Beat.
type Beaten struct {
	Remaining time.Duration // of the lease, by the database's clock
	Cancel    bool          // the run is to stop
	Code      domain.Code   // the refusal, if it was refused
}

// A lapsed lease is not renewed, although the reaper has not come yet: its
// holder has stopped by its own clock, or should have.
//
// Index: claims_pkey. The rows are locked in the order of their ids first.
const renew = `
WITH mine AS (
  SELECT c.run_id, c.claim_id, c.start_token IS NOT NULL AS started, c.lease_until > now() AS live
    FROM claims c JOIN unnest($1::uuid[], $2::uuid[]) AS u(r, k) ON c.run_id = u.r AND c.claim_id = u.k
   ORDER BY c.run_id FOR UPDATE OF c),
renewed AS (
  UPDATE claims c SET lease_until = least(now() + $3::interval, c.deadline + $4::interval)
    FROM mine m WHERE c.run_id = m.run_id AND m.started AND m.live
  RETURNING c.run_id, c.lease_until - now() AS remaining, c.cancel)
SELECT m.run_id, m.claim_id, m.started, m.live, r.remaining, r.cancel FROM mine m LEFT JOIN renewed r USING (run_id)`

// Index: run_outputs_pkey.
const upsertProgress = `
INSERT INTO run_outputs (run_id, attempt, progress, message, updated_at)
SELECT c.run_id, c.attempt, u.p, u.m, now() FROM unnest($1::uuid[], $2::uuid[], $3::real[], $4::text[]) AS u(r, k, p, m)
  JOIN claims c ON c.run_id = u.r AND c.claim_id = u.k
ON CONFLICT (run_id, attempt) DO UPDATE SET progress = coalesce(excluded.progress, run_outputs.progress),
  message = coalesce(excluded.message, run_outputs.message), updated_at = excluded.updated_at`

// Heartbeat renews leases by the terms, as [domain.ExecutionTerms.End] has it. Beats are no events. The answers are in the order of the
// beats.
func (s *Store) Heartbeat(ctx context.Context, beats []Beat, terms domain.ExecutionTerms) ([]Beaten, error) {
	ids, claims := make([]uuid.UUID, len(beats)), make([]uuid.UUID, len(beats))
	for i, b := range beats {
		ids[i], claims[i] = b.RunID, b.ClaimID
	}
	type key struct{ run, claim uuid.UUID }
	renewed := make(map[key]Beaten, len(beats))
	rows, err := s.ops.Query(ctx, renew, ids, claims, terms.Lease, terms.Complete)
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, func(rows pgx.Rows) error {
		var k key
		var started, live bool
		var remaining *time.Duration
		var cancel *bool
		if err := rows.Scan(&k.run, &k.claim, &started, &live, &remaining, &cancel); err != nil {
			return err
		}
		switch {
		case !started:
			renewed[k] = Beaten{Code: domain.CodeNotStarted}
		case !live:
			renewed[k] = Beaten{Code: domain.CodeLeaseOver}
		default:
			renewed[k] = Beaten{Remaining: deref(remaining), Cancel: deref(cancel)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]Beaten, len(beats))
	for i, b := range beats {
		beaten, ok := renewed[key{b.RunID, b.ClaimID}]
		if !ok {
			beaten.Code = domain.CodeStaleClaim
		}
		out[i] = beaten
	}
	if err := s.progress(ctx, beats); err != nil { // the leases are renewed whatever becomes of the words
		s.log.WarnContext(ctx, "progress of runs was not stored", "error", err)
	}
	return out, nil
}

func (s *Store) progress(ctx context.Context, beats []Beat) error {
	var ids, claims []uuid.UUID
	var progress []*float32
	var message []*string
	seen := map[uuid.UUID]bool{}
	beats = slices.Clone(beats) // outcomes write the same rows, in the same order
	slices.SortFunc(beats, func(a, b Beat) int { return compareIDs(a.RunID, b.RunID) })
	for _, b := range beats {
		if b.Progress == nil && b.Message == "" || seen[b.RunID] {
			continue
		}
		seen[b.RunID] = true
		ids, claims, progress = append(ids, b.RunID), append(claims, b.ClaimID), append(progress, b.Progress)
		var m *string
		if b.Message != "" {
			text := domain.StorableError(domain.RunError{Message: b.Message}).Message
			m = &text
		}
		message = append(message, m)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := s.ops.Exec(ctx, upsertProgress, ids, claims, progress, message)
	return err
}
