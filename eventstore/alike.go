package eventstore

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Nearly every transaction starts claims that nobody has started, or closes started
// claims by success. Such a batch is decided without locking its claims first, which
// would cost as much again as the write that follows: a lock is a write of its own,
// and finds each row once more.
//
// A success takes its claim away in the statement that reads it. The row goes only if
// it is this claim's and started, which is all that the decision asks, and a
// row that another transaction holds is waited for and looked at again. A start
// reads its claim as it lies, and its write is a compare-and-set on claim, version
// and start: whatever came in between has made that find nothing.
//
// Both count what they changed. If a single claim is missing, or is not as the
// batch took for granted, nothing is committed and the commands are decided again
// under locks; see Execute. The count of the starts is waited for, which is a
// round trip more: a delivery made twice is not worth an error in the server's log.
// A few starts lock instead, that costs them less. Rows are written in the order of their ids, so that
// batches, and those who lock, wait for one another and do not meet crosswise.

// alike says what a batch consists of.
type alike struct {
	starts bool    // or else successes
	order  []int32 // of the commands, by their runs' ids
}

const fewStarts = 16

// alikeIn is nil if the commands are not all starts, and some more than a few, or
// all successes, each of another run.
func alikeIn(commands []Command) *alike {
	a := &alike{starts: startsOnly(commands), order: make([]int32, len(commands))}
	if a.starts && len(commands) < fewStarts {
		return nil
	}
	for i, c := range commands {
		if _, success := c.Do.(domain.SucceedRun); !success && !a.starts {
			return nil
		}
		a.order[i] = int32(i)
	}
	slices.SortFunc(a.order, func(i, j int32) int { return compareIDs(commands[i].RunID, commands[j].RunID) })
	for i := 1; i < len(a.order); i++ {
		if commands[a.order[i]].RunID == commands[a.order[i-1]].RunID {
			return nil
		}
	}
	return a
}

// Index: claims_pkey.
const readClaimed = `
SELECT run_id, claim_id, version, attempt, changed_at, lease_until, job_id, job_version, origin, kind, scheduled_at, args
  FROM claims WHERE run_id = ANY($1) AND start_token IS NULL ORDER BY run_id`

// Index: claims_pkey.
const startClaims = `
WITH kept AS (
  UPDATE claims c SET start_token = u.t, worker = u.w, started_at = u.sa, lease_until = u.l, deadline = u.d,
         version = u.v + 1, attempt = u.att, dispatches = 0, changed_at = u.sa
    FROM (SELECT r, ($2::uuid[])[i] AS k, coalesce(($3::int[])[i], ($3::int[])[1]) AS v, ($4::uuid[])[i] AS t, ($5::text[])[coalesce(($6::int[])[i], 1)] AS w,
                 coalesce(($7::timestamptz[])[i], ($7::timestamptz[])[1]) AS sa, coalesce(($8::timestamptz[])[i], ($8::timestamptz[])[1]) AS l,
                 ($9::timestamptz[])[coalesce(($10::int[])[i], 1)] AS d, coalesce(($11::int[])[i], ($11::int[])[1]) AS att
            FROM unnest($1::uuid[]) WITH ORDINALITY AS a(r, i)) u
   WHERE c.run_id = u.r AND c.claim_id = u.k AND c.version = u.v AND c.start_token IS NULL RETURNING 1)
SELECT count(*) FROM kept`

// Index: claims_pkey.
const closeStarted = `
DELETE FROM claims c USING (SELECT r, ($2::uuid[])[i] AS k FROM unnest($1::uuid[]) WITH ORDINALITY AS a(r, i)) u
 WHERE c.run_id = u.r AND c.claim_id = u.k AND c.start_token IS NOT NULL
RETURNING c.run_id, c.claim_id, c.version, c.attempt, c.changed_at, c.started_at, c.job_id, c.queue, c.kind, c.worker`

// executeAlike executes the batch, or reports that it did not: what it met has to
// be decided under locks.
func (s *Store) executeAlike(ctx context.Context, commands []Command, a *alike) (answers []Answer, done bool, err error) {
	ids, claims := make([]uuid.UUID, len(commands)), make([]uuid.UUID, len(commands))
	for i, c := range a.order {
		ids[i] = commands[c].RunID
		claims[i], _ = claimOf(commands[c].Do)
	}
	rows, runs := make([]located, 0, len(commands)), make([]*located, len(commands))
	var keys []string
	var read alikeReader
	look := []query{{s.sql.readClaimed, []any{ids}, nil}}
	if !a.starts {
		look = []query{{lockHeldKeys, []any{ids}, appendText(&keys)}, {s.sql.closeStarted, []any{ids, claims}, nil}}
	}
	look[len(look)-1].scan = func(row pgx.Rows) error {
		i := len(rows)
		if read.odd || i == len(ids) || !read.begin(row) {
			read.odd = true
			return nil
		}
		rows = append(rows, located{})
		l := &rows[i]
		if a.starts {
			read.unstarted(l)
		} else {
			read.closed(l)
		}
		read.unlike = read.unlike || read.odd || l.ID != ids[i] || l.ClaimID != claims[i]
		l.before = was(l.Run)
		runs[a.order[i]] = l
		return nil
	}
	tx, err := beginWith(ctx, s.ops, look...)
	if err != nil {
		return nil, false, err
	}
	defer tx.rollback(ctx)
	if len(rows) != len(ids) || read.unlike {
		return nil, false, nil
	}
	answers, changes, err := s.decide(ctx, tx, commands, keys, runs, a.order)
	if err != nil {
		return nil, false, err
	}
	for i := range answers {
		if answers[i].Err != nil || answers[i].Repeat { // a lease that is over, most likely
			return nil, false, nil
		}
	}
	if a.starts {
		s.pausing("start")
		if n, err := changes.start(ctx, tx, s.sql.startClaims); err != nil || n != len(ids) {
			return nil, false, err
		}
	}
	return answers, true, s.commitDecided(ctx, tx, commands, changes)
}

// alikeReader reads what the two statements return of claims.
type alikeReader struct {
	runReader
	unlike bool // some row is not what the batch took for granted
}

func (r *alikeReader) unstarted(l *located) {
	l.at, l.State = inClaims, domain.Claimed
	l.ID, l.ClaimID, l.Version, l.Attempt, l.ChangedAt, l.LeaseUntil = r.id(), r.id(), r.int32(), r.int32(), r.time(), r.time()
	l.JobID, l.JobVersion = r.id(), r.int32()
	l.Origin, l.Kind = domain.Origin(r.text(&r.origin)), r.text(&r.kind)
	l.ScheduledAt, l.Args = r.time(), r.bytes()
}

// closed reads a claim that is in no table any more.
func (r *alikeReader) closed(l *located) {
	l.at, l.State = nowhere, domain.Running
	l.ID, l.ClaimID, l.Version, l.Attempt, l.ChangedAt, l.StartedAt = r.id(), r.id(), r.int32(), r.int32(), r.time(), r.time()
	l.JobID, l.Queue, l.Kind, l.Worker = r.id(), r.text(&r.queue), r.text(&r.kind), r.text(&r.worker)
}

// start writes the starts at once, and tells how many claims were as they were read.
func (c *changes) start(ctx context.Context, tx *txn, sql string) (started int, err error) {
	n := len(c.keep)
	token, at, lease, attempt := make([]uuid.UUID, n), make([]time.Time, n), make([]time.Time, n), make([]int32, n)
	var worker texts
	worker.at = make([]int32, 0, n)
	var deadline deadlines
	deadline.at = make([]int32, 0, n)
	for i, r := range c.keep {
		worker.add(r.Worker)
		deadline.add(r.Deadline)
		token[i], at[i], lease[i], attempt[i] = r.Token, r.StartedAt, r.LeaseUntil, int32(r.Attempt)
	}
	err = tx.query(ctx, sql, []any{c.kept.runs, c.kept.claims, column(c.kept.versions), token, worker.distinct, column(worker.at), column(at), column(lease),
		deadline.distinct, column(deadline.at), column(attempt)}, func(rows pgx.Rows) error { return rows.Scan(&started) })
	c.keep, c.kept = nil, fencedIDs{}
	return started, err
}

// deadlines are a column of times of which few are distinct, as texts are one.
type deadlines struct {
	distinct []*time.Time
	at       []int32
}

const deadlinesAtHand = 16 // are looked through for the same one

func (d *deadlines) add(t *time.Time) {
	for i := len(d.distinct); i > max(0, len(d.distinct)-deadlinesAtHand); i-- {
		if o := d.distinct[i-1]; o == t || o != nil && t != nil && *o == *t {
			d.at = append(d.at, int32(i))
			return
		}
	}
	d.distinct = append(d.distinct, t)
	d.at = append(d.at, int32(len(d.distinct)))
}
