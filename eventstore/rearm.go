package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Claims are read and written by pages, so that a transaction holds one page in
// memory, and messages are put into packs of a size that is published in a
// fraction of its time limit. The minimum of a lease is the broker's shortest
// time to live.
const (
	rearmPage = 5000
	rearmPack = 500
)

// Index: dispatch_streams_pkey.
const lockStream = `SELECT created_at, generation FROM dispatch_streams WHERE name = $1 FOR UPDATE`

// Index: dispatch_streams_pkey. Waits for another replica that is inserting it.
const insertStream = `
INSERT INTO dispatch_streams (name, created_at, changed_at) VALUES ($1, $2, now())
ON CONFLICT (name) DO NOTHING RETURNING generation`

// Index: dispatch_streams_pkey.
const updateStream = `
UPDATE dispatch_streams SET created_at = $2, generation = $3, changed_at = now() WHERE name = $1`

// Index: claims_pkey. No row is locked: a claim that is started or closed
// meanwhile gets a message that start refuses.
const unstartedClaims = `
SELECT run_id, claim_id, lease_until, queue, kind FROM claims
 WHERE run_id > $1 AND start_token IS NULL AND lease_until > now() + interval '1 second'
 ORDER BY run_id LIMIT $2`

// Rearm dispatches again what went down with the broker's stream. Call it with
// the stream's name and creation time whenever they are looked at. If they are
// not those recorded, every claim that nobody has started and whose dispatch
// lease lives gets another message, of the next generation, in the transaction
// that records the new creation time: of replicas that see the same change one
// re-arms, and a replica that dies has done all of it or nothing. The first
// sight of a stream records it and re-arms nothing.
//
// n is the number of messages. A creation time earlier than the recorded one is
// a change like any other: a stream may have been restored.
func (s *Store) Rearm(ctx context.Context, stream string, created time.Time, out Outbox) (n int, err error) {
	created = created.UTC().Truncate(time.Microsecond) // as the table keeps it
	err = again(ctx, func() (err error) {
		n, err = s.rearm(ctx, stream, created, out)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("re-arm claims for stream %s of %s: %w", stream, created.Format(time.RFC3339Nano), err)
	}
	return n, nil
}

func (s *Store) rearm(ctx context.Context, stream string, created time.Time, out Outbox) (int, error) {
	var known *time.Time
	var generation int
	tx, err := begin(ctx, s.loops, lockStream, []any{stream}, func(rows pgx.Rows) error {
		return rows.Scan(&known, &generation)
	})
	if err != nil {
		return 0, err
	}
	defer tx.rollback(ctx)
	if known == nil {
		return 0, insertFirst(ctx, tx, stream, created)
	}
	if known.Equal(created) {
		return 0, nil
	}
	if err := crashpoint.Err(crashpoint.RearmPostSelect); err != nil {
		return 0, err
	}
	generation++
	var n int
	var handOver []func()
	b := &pgx.Batch{}
	for last, more := (uuid.UUID{}), true; more; {
		page, err := readUnstarted(ctx, tx, last, generation)
		if err != nil {
			return 0, err
		}
		if b.Len() > 0 {
			if err := tx.conn.SendBatch(ctx, b).Close(); err != nil {
				return 0, err
			}
			b = &pgx.Batch{}
		}
		n += len(page)
		if more = len(page) == rearmPage; more {
			last = page[len(page)-1].Hints[0].RunID
		}
		for len(page) > 0 {
			k := min(rearmPack, len(page))
			committed, err := out.Enqueue(b, tx.now, page[:k])
			if err != nil {
				return 0, fmt.Errorf("write dispatches: %w", err)
			}
			handOver = append(handOver, committed)
			page = page[k:]
		}
	}
	b.Queue(updateStream, stream, created, generation)
	crashpoint.At(crashpoint.RearmPreCommit)
	if err := tx.commit(ctx, b); err != nil {
		return 0, err
	}
	if err := crashpoint.Err(crashpoint.RearmPostCommit); err != nil {
		return 0, err
	}
	for _, committed := range handOver {
		committed()
	}
	s.log.WarnContext(ctx, "dispatch stream is a new one, unstarted claims are dispatched again", "stream", stream,
		"created", created, "was", known.UTC(), "generation", generation, "claims", n)
	return n, nil
}

func insertFirst(ctx context.Context, tx *txn, stream string, created time.Time) error {
	inserted := false
	err := tx.query(ctx, insertStream, []any{stream, created}, func(pgx.Rows) error {
		inserted = true
		return nil
	})
	switch {
	case err != nil:
		return err
	case !inserted:
		return errLookAgain
	}
	return tx.commit(ctx, &pgx.Batch{})
}

// readUnstarted gives the page of claims after the run last, each as a message.
func readUnstarted(ctx context.Context, tx *txn, last uuid.UUID, generation int) ([]Message, error) {
	var page []Message
	err := tx.query(ctx, unstartedClaims, []any{last, rearmPage}, func(rows pgx.Rows) error {
		m := Message{Generation: generation, Hints: make([]Hint, 1)}
		h := &m.Hints[0]
		err := rows.Scan(&h.RunID, &h.ClaimID, &h.LeaseUntil, &m.Queue, &m.Kind)
		h.LeaseUntil = h.LeaseUntil.UTC()
		page = append(page, m)
		return err
	})
	return page, err
}
