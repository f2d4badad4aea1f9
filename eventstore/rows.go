package eventstore

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// The era comes from the database, in the statement that appends: a transaction
// either commits before an era is raised or finds the new one, and in another
// history than the era's it fails.
//
// Index: the primary keys of the partitions; eras_pkey for the era.
const insertEvents = `
INSERT INTO events (category, stream_id, version, era, type, schema_version, at, actor, correlation, causation, data)
SELECT c, s, v, (SELECT daybook_era()), t, $1, a, w, r, z, d
  FROM unnest($2::text[], $3::uuid[], $4::int[], $5::text[], $6::timestamptz[], $7::text[], $8::uuid[], $9::uuid[], $10::jsonb[])
       AS u(c, s, v, t, a, w, r, z, d)`

// eventRows gathers events for one INSERT. Events of a stream must be added in
// the order of their versions: positions are drawn in the order of the rows.
type eventRows struct {
	category []string
	stream   []uuid.UUID
	version  []int32
	typ      []string
	at       []time.Time
	actor    []string
	corr     []*uuid.UUID
	cause    []*uuid.UUID
	data     [][]byte
	linked   bool // some row has a correlation or a causation
}

// Meta says who caused an event and what it belongs to.
type Meta struct {
	Actor       string
	Correlation *uuid.UUID
	Causation   *uuid.UUID
}

func (r *eventRows) add(stream uuid.UUID, version int, at time.Time, m Meta, e domain.Event) error {
	data, err := domain.EncodeEvent(e)
	if err != nil {
		return err
	}
	r.category = append(r.category, string(domain.CategoryOf(e)))
	r.stream = append(r.stream, stream)
	r.version = append(r.version, int32(version))
	r.typ = append(r.typ, e.EventType())
	r.at = append(r.at, at)
	r.actor = append(r.actor, m.Actor)
	r.corr = append(r.corr, m.Correlation)
	r.cause = append(r.cause, m.Causation)
	r.data = append(r.data, data)
	r.linked = r.linked || m.Correlation != nil || m.Causation != nil
	return nil
}

// grow makes room for n events more.
func (r *eventRows) grow(n int) {
	r.category, r.stream, r.version = slices.Grow(r.category, n), slices.Grow(r.stream, n), slices.Grow(r.version, n)
	r.typ, r.at, r.actor = slices.Grow(r.typ, n), slices.Grow(r.at, n), slices.Grow(r.actor, n)
	r.corr, r.cause, r.data = slices.Grow(r.corr, n), slices.Grow(r.cause, n), slices.Grow(r.data, n)
}

func (r *eventRows) queue(b *pgx.Batch) {
	if len(r.stream) == 0 {
		return
	}
	corr, cause := r.corr, r.cause
	if !r.linked { // unnest pads a missing array with NULLs
		corr, cause = nil, nil
	}
	b.Queue(insertEvents, domain.SchemaVersion, r.category, r.stream, r.version, r.typ, r.at, r.actor, corr, cause, r.data)
}

// Index: due_runs_pkey, due_runs_lane and due_runs_job are written.
const insertDue = `
INSERT INTO due_runs (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
                      version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::timestamptz[], $9::timestamptz[],
                     $10::int[], $11::int[], $12::int[], $13::int[], $14::timestamptz[], $15::bytea[], $16::bool[], $17::timestamptz[])`

// Index: waiting_runs_pkey, waiting_runs_key and waiting_runs_job are written.
const insertWaiting = `
INSERT INTO waiting_runs (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
                          version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since, limit_key)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::timestamptz[], $9::timestamptz[],
                     $10::int[], $11::int[], $12::int[], $13::int[], $14::timestamptz[], $15::bytea[], $16::bool[], $17::timestamptz[], $18::text[])`

// Index: claims_pkey is written.
const insertClaims = `
INSERT INTO claims (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
                    version, attempt, dispatches, claims, changed_at, args, claim_id, lease_until)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::timestamptz[], $9::timestamptz[],
                     $10::int[], $11::int[], $12::int[], $13::int[], $14::timestamptz[], $15::bytea[], $16::uuid[], $17::timestamptz[])`

// liveRows gathers runs for one INSERT into due_runs or claims.
type liveRows struct {
	ids, jobs                  []uuid.UUID
	jobVersion                 []int32
	origin, queue, kind        []string
	priority                   []int16
	scheduled, ready, changed  []time.Time
	version, attempt, dispatch []int32
	claims                     []int32
	args                       [][]byte
	catchUp                    []bool
	waitingSince               []*time.Time
	claimIDs                   []uuid.UUID
	lease                      []time.Time
}

// grow makes room for n runs more.
func (l *liveRows) grow(n int) {
	l.ids, l.jobs, l.jobVersion = slices.Grow(l.ids, n), slices.Grow(l.jobs, n), slices.Grow(l.jobVersion, n)
	l.origin, l.queue, l.kind, l.priority = slices.Grow(l.origin, n), slices.Grow(l.queue, n), slices.Grow(l.kind, n), slices.Grow(l.priority, n)
	l.scheduled, l.ready, l.changed = slices.Grow(l.scheduled, n), slices.Grow(l.ready, n), slices.Grow(l.changed, n)
	l.version, l.attempt, l.dispatch = slices.Grow(l.version, n), slices.Grow(l.attempt, n), slices.Grow(l.dispatch, n)
	l.claims, l.args, l.catchUp = slices.Grow(l.claims, n), slices.Grow(l.args, n), slices.Grow(l.catchUp, n)
	l.waitingSince, l.claimIDs, l.lease = slices.Grow(l.waitingSince, n), slices.Grow(l.claimIDs, n), slices.Grow(l.lease, n)
}

func (l *liveRows) add(r domain.Run) {
	l.ids, l.jobs = append(l.ids, r.ID), append(l.jobs, r.JobID)
	l.jobVersion = append(l.jobVersion, int32(r.JobVersion))
	l.origin, l.queue, l.kind = append(l.origin, string(r.Origin)), append(l.queue, r.Queue), append(l.kind, r.Kind)
	l.priority = append(l.priority, int16(r.Priority))
	l.scheduled, l.ready, l.changed = append(l.scheduled, r.ScheduledAt), append(l.ready, r.ReadyAt), append(l.changed, r.ChangedAt)
	l.version, l.attempt = append(l.version, int32(r.Version)), append(l.attempt, int32(r.Attempt))
	l.dispatch, l.claims = append(l.dispatch, int32(r.Dispatches)), append(l.claims, int32(r.Claims))
	l.args = append(l.args, r.Args)
	l.catchUp = append(l.catchUp, r.CatchUp)
	var since *time.Time
	if !r.WaitingSince.IsZero() {
		since = &r.WaitingSince
	}
	l.waitingSince = append(l.waitingSince, since)
	l.claimIDs, l.lease = append(l.claimIDs, r.ClaimID), append(l.lease, r.LeaseUntil)
}

// run gives back the i-th run that was added, as a due row has it.
func (l *liveRows) run(i int) domain.Run {
	return domain.Run{
		ID: l.ids[i], JobID: l.jobs[i], JobVersion: int(l.jobVersion[i]), Origin: domain.Origin(l.origin[i]), Queue: l.queue[i], Kind: l.kind[i],
		Priority: int(l.priority[i]), ScheduledAt: l.scheduled[i], ReadyAt: l.ready[i], ChangedAt: l.changed[i], Version: int(l.version[i]),
		Attempt: int(l.attempt[i]), Dispatches: int(l.dispatch[i]), Claims: int(l.claims[i]), Args: l.args[i], CatchUp: l.catchUp[i],
		WaitingSince: deref(l.waitingSince[i]), State: domain.Pending,
	}
}

func (l *liveRows) columns() []any {
	return []any{l.ids, l.jobs, l.jobVersion, l.origin, l.queue, l.kind, l.priority, l.scheduled, l.ready,
		l.version, l.attempt, l.dispatch, l.claims, l.changed, l.args}
}

// queueDue inserts the runs as due and has the database refuse a commit that
// comes so late that claimers look past their ready times.
func (l *liveRows) queueDue(b *pgx.Batch) {
	if len(l.ids) == 0 {
		return
	}
	b.Queue(insertDue, append(l.columns(), l.catchUp, l.waitingSince)...)
	b.Queue("SELECT daybook_expect_fresh()")
}

func (l *liveRows) queueClaims(b *pgx.Batch) {
	if len(l.ids) > 0 {
		b.Queue(insertClaims, append(l.columns(), l.claimIDs, l.lease)...)
	}
}

const runColumns = `run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
	version, attempt, dispatches, claims, changed_at, args`

const dueColumns = runColumns + `, catch_up, waiting_since`

const claimColumns = runColumns + `, claim_id, lease_until, start_token, worker, started_at, deadline, cancel, cancel_reason`

// scanDue reads a row of due_runs.
func scanDue(rows pgx.Rows) (domain.Run, error) {
	r := domain.Run{State: domain.Pending}
	var since *time.Time
	err := rows.Scan(append(runTargets(&r), &r.CatchUp, &since)...)
	r.WaitingSince = deref(since).UTC()
	if since == nil {
		r.WaitingSince = time.Time{}
	}
	return inUTC(r), err
}

// scanClaim reads a row of claims.
func scanClaim(rows pgx.Rows) (domain.Run, error) {
	r := domain.Run{State: domain.Claimed}
	var token *uuid.UUID
	var worker *string
	var started *time.Time
	err := rows.Scan(append(runTargets(&r), &r.ClaimID, &r.LeaseUntil, &token, &worker, &started, &r.Deadline, &r.CancelRequested, &r.CancelReason)...)
	if token != nil {
		r.State, r.Token, r.Worker, r.StartedAt = domain.Running, *token, deref(worker), deref(started).UTC()
	}
	r.LeaseUntil = r.LeaseUntil.UTC()
	return inUTC(r), err
}

func runTargets(r *domain.Run) []any {
	return []any{&r.ID, &r.JobID, &r.JobVersion, &r.Origin, &r.Queue, &r.Kind, &r.Priority, &r.ScheduledAt, &r.ReadyAt,
		&r.Version, &r.Attempt, &r.Dispatches, &r.Claims, &r.ChangedAt, (*[]byte)(&r.Args)}
}

func inUTC(r domain.Run) domain.Run {
	r.ScheduledAt, r.ReadyAt, r.ChangedAt = r.ScheduledAt.UTC(), r.ReadyAt.UTC(), r.ChangedAt.UTC()
	if r.Deadline != nil {
		d := r.Deadline.UTC()
		r.Deadline = &d
	}
	return r
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
