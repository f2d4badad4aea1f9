package eventstore

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// changes is what the commands of a batch do to the tables.
type changes struct {
	now     time.Time
	events  eventRows
	due     liveRows  // inserted into due_runs
	drop    fencedIDs // deleted from claims
	keep    []*domain.Run
	kept    fencedIDs // updated in claims
	dropDue []uuid.UUID
	unwait  []uuid.UUID // deleted from waiting_runs
	unpark  []uuid.UUID // deleted from parked_runs
	freed   freed
	outputs []runOutput

	worker, actor string // the last one
}

// workerActor is the actor of what a worker did. Most of a batch is one worker's.
func (c *changes) workerActor(worker string) string {
	if c.actor == "" || c.worker != worker {
		c.worker, c.actor = worker, "worker:"+worker
	}
	return c.actor
}

// fencedIDs names claim rows by run, claim and version: whoever wrote meanwhile
// makes them name nothing.
type fencedIDs struct {
	runs, claims []uuid.UUID
	versions     []int32
}

func (f *fencedIDs) add(run uuid.UUID, b before) {
	f.runs, f.claims, f.versions = append(f.runs, run), append(f.claims, b.claim), append(f.versions, int32(b.version))
}

func (f *fencedIDs) grow(n int) {
	f.runs, f.claims, f.versions = slices.Grow(f.runs, n), slices.Grow(f.claims, n), slices.Grow(f.versions, n)
}

type runOutput struct {
	run     uuid.UUID
	attempt int
	Output
}

// grow makes room for what most of the commands come to: a start keeps its claim,
// an outcome closes it.
func (c *changes) grow(commands []Command) {
	n := len(commands)
	if n == 0 {
		return
	}
	c.events.grow(n)
	if _, start := commands[0].Do.(domain.StartRun); start {
		c.kept.grow(n)
		c.keep = slices.Grow(c.keep, n)
	} else {
		c.drop.grow(n)
	}
}

// move derives from a run before and after the commands which rows change.
func (c *changes) move(l *located) {
	if l.moved || l.Version == l.before.version {
		return
	}
	l.moved = true
	switch {
	case l.at == inClaims && l.InHand():
		c.kept.add(l.ID, l.before)
		c.keep = append(c.keep, &l.Run)
	case l.at == inClaims:
		c.drop.add(l.ID, l.before)
	case l.at == inDue:
		c.dropDue = append(c.dropDue, l.ID)
	case l.at == inWaiting:
		c.unwait = append(c.unwait, l.ID)
	case l.at == inParked:
		c.unpark = append(c.unpark, l.ID)
	}
	if l.State == domain.Pending && l.at == inClaims {
		c.due.add(l.Run)
	}
}

// The fence in SQL. The rows are locked and their content was decided on, so
// these find what they name; if ever they do not, the transaction ends.
//
// Index: claims_pkey.
const deleteClaims = `
WITH gone AS (
  DELETE FROM claims c
   USING (SELECT r, ($2::uuid[])[i] AS k, coalesce(($3::int[])[i], ($3::int[])[1]) AS v FROM unnest($1::uuid[]) WITH ORDINALITY AS a(r, i)) u
   WHERE c.run_id = u.r AND c.claim_id = u.k AND c.version = u.v RETURNING 1)
SELECT daybook_expect('claims closed', count(*), $4) FROM gone`

// Index: claims_pkey.
const updateClaims = `
WITH kept AS (
  UPDATE claims c SET start_token = u.t, worker = u.w, started_at = u.sa, lease_until = u.l, deadline = u.d, cancel = u.x, cancel_reason = u.xr,
         version = u.nv, attempt = u.att, dispatches = u.di, changed_at = u.ch
    FROM (SELECT r, ($2::uuid[])[i] AS k, coalesce(($3::int[])[i], ($3::int[])[1]) AS v, ($4::uuid[])[i] AS t, ($5::text[])[coalesce(($6::int[])[i], 1)] AS w,
                 coalesce(($7::timestamptz[])[i], ($7::timestamptz[])[1]) AS sa, coalesce(($8::timestamptz[])[i], ($8::timestamptz[])[1]) AS l,
                 ($9::timestamptz[])[i] AS d, coalesce(($10::bool[])[i], ($10::bool[])[1]) AS x, ($11::text[])[coalesce(($12::int[])[i], 1)] AS xr,
                 coalesce(($13::int[])[i], ($13::int[])[1]) AS nv, coalesce(($14::int[])[i], ($14::int[])[1]) AS att,
                 coalesce(($15::int[])[i], ($15::int[])[1]) AS di, coalesce(($16::timestamptz[])[i], ($16::timestamptz[])[1]) AS ch
            FROM unnest($1::uuid[]) WITH ORDINALITY AS a(r, i)) u
   WHERE c.run_id = u.r AND c.claim_id = u.k AND c.version = u.v RETURNING 1)
SELECT daybook_expect('claims kept', count(*), $17) FROM kept`

// Index: due_runs_pkey.
const deleteDue = `
WITH gone AS (DELETE FROM due_runs WHERE run_id = ANY($1) RETURNING 1)
SELECT daybook_expect('due runs cancelled', count(*), $2) FROM gone`

// Index: waiting_runs_pkey.
const deleteWaiting = `
WITH gone AS (DELETE FROM waiting_runs WHERE run_id = ANY($1) RETURNING 1)
SELECT daybook_expect('waiting runs cancelled', count(*), $2) FROM gone`

// Index: run_outputs_pkey.
const upsertOutput = `
INSERT INTO run_outputs (run_id, attempt, head, tail, total_bytes, result, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, now())
ON CONFLICT (run_id, attempt) DO UPDATE SET head = excluded.head, tail = excluded.tail, total_bytes = excluded.total_bytes,
  result = excluded.result, updated_at = excluded.updated_at`

// queue adds the writes to the batch and reports whether there are any.
func (c *changes) queue(b *pgx.Batch, sql statements) bool {
	if len(c.events.stream) == 0 {
		return false
	}
	if n := len(c.drop.runs); n > 0 {
		b.Queue(sql.deleteClaims, c.drop.runs, c.drop.claims, column(c.drop.versions), n)
	}
	if n := len(c.keep); n > 0 {
		c.queueKept(b, sql.updateClaims, n)
	}
	if n := len(c.dropDue); n > 0 {
		b.Queue(deleteDue, c.dropDue, n)
	}
	if n := len(c.unwait); n > 0 {
		b.Queue(deleteWaiting, c.unwait, n)
	}
	if n := len(c.unpark); n > 0 {
		b.Queue(deleteParked, c.unpark, n)
	}
	slices.SortStableFunc(c.outputs, func(a, b runOutput) int { return compareIDs(a.run, b.run) })
	for _, o := range c.outputs {
		var result any
		if len(o.Result) > 0 {
			result = string(o.Result)
		}
		b.Queue(upsertOutput, o.run, o.attempt, o.Head, o.Tail, o.TotalBytes, result)
	}
	c.events.queue(b)
	c.due.queueDue(b)
	c.freed.queue(b)
	return true
}

func (c *changes) queueKept(b *pgx.Batch, sql string, n int) {
	token, started, lease, changed := make([]uuid.UUID, n), make([]time.Time, n), make([]time.Time, n), make([]time.Time, n)
	var worker, reason texts
	var deadline []*time.Time // none: nil
	flag := make([]bool, n)
	version, attempt, dispatches := make([]int32, n), make([]int32, n), make([]int32, n)
	for i, r := range c.keep {
		worker.add(r.Worker)
		reason.add(r.CancelReason)
		token[i], started[i], lease[i], flag[i], changed[i] = r.Token, r.StartedAt, r.LeaseUntil, r.CancelRequested, r.ChangedAt
		if r.Deadline != nil && deadline == nil {
			deadline = make([]*time.Time, n)
		}
		if deadline != nil {
			deadline[i] = r.Deadline
		}
		version[i], attempt[i], dispatches[i] = int32(r.Version), int32(r.Attempt), int32(r.Dispatches)
	}
	b.Queue(sql, c.kept.runs, c.kept.claims, column(c.kept.versions), token, worker.distinct, column(worker.at), column(started), column(lease), deadline,
		column(flag), reason.distinct, column(reason.at), column(version), column(attempt), column(dispatches), column(changed), n)
}
