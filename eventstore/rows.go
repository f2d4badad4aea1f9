package eventstore

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// An array that is unnested costs the server a table of its own, which it fills
// and reads again. So of the rows' columns one is unnested, with its ordinals,
// and the others are looked up by those: at once where the elements have a fixed
// length and none is NULL, else by a walk. A column with the same value in all
// rows comes as that value alone (see column), and texts, of which few are
// distinct, as those and for every row the place among them (see texts).

// The era comes from the database, in the statement that appends: a transaction
// either commits before an era is raised or finds the new one, and in another
// history than the era's it fails. What the session has verified is asked for
// here, since a call of the function costs as much as a few events.
//
// Index: the primary keys of the partitions; eras_pkey for the era.
const insertEvents = `
INSERT INTO events (category, stream_id, version, era, type, schema_version, at, actor, correlation, causation, data)
SELECT ($3::text[])[coalesce(($4::int[])[i], 1)], ($5::uuid[])[i], coalesce(($6::int[])[i], ($6::int[])[1]), (SELECT coalesce((
         SELECT CASE WHEN e.log = 'events'::regclass AND e.era || '/' || e.system_identifier || '/' || e.timeline = current_setting('daybook.era_verified', true)
                     THEN e.era END
           FROM eras e ORDER BY e.era DESC LIMIT 1), daybook_era())),
       ($7::text[])[coalesce(($8::int[])[i], 1)], $1, coalesce(($9::timestamptz[])[i], ($9::timestamptz[])[1]),
       ($10::text[])[coalesce(($11::int[])[i], 1)], ($12::uuid[])[i], ($13::uuid[])[i], data
  FROM unnest($2::jsonb[]) WITH ORDINALITY AS u(data, i)`

// eventRows gathers events for one INSERT. Events of a stream must be added in
// the order of their versions: positions are drawn in the order of the rows.
type eventRows struct {
	category texts
	stream   []uuid.UUID
	version  []int32
	typ      texts
	at       []time.Time
	actor    texts
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
	r.category.add(string(domain.CategoryOf(e)))
	r.stream = append(r.stream, stream)
	r.version = append(r.version, int32(version))
	r.typ.add(e.EventType())
	r.at = append(r.at, at)
	r.actor.add(m.Actor)
	r.corr = append(r.corr, m.Correlation)
	r.cause = append(r.cause, m.Causation)
	r.data = append(r.data, data)
	r.linked = r.linked || m.Correlation != nil || m.Causation != nil
	return nil
}

// grow makes room for n more rows.
func (r *eventRows) grow(n int) {
	r.category.at, r.typ.at, r.actor.at = slices.Grow(r.category.at, n), slices.Grow(r.typ.at, n), slices.Grow(r.actor.at, n)
	r.stream, r.version, r.at = slices.Grow(r.stream, n), slices.Grow(r.version, n), slices.Grow(r.at, n)
	r.corr, r.cause, r.data = slices.Grow(r.corr, n), slices.Grow(r.cause, n), slices.Grow(r.data, n)
}

func (r *eventRows) queue(b *pgx.Batch) {
	if len(r.stream) == 0 {
		return
	}
	corr, cause := r.corr, r.cause
	if !r.linked { // an element of no array is NULL
		corr, cause = nil, nil
	}
	b.Queue(insertEvents, domain.SchemaVersion, r.data, r.category.distinct, column(r.category.at), r.stream, column(r.version),
		r.typ.distinct, column(r.typ.at), column(r.at), r.actor.distinct, column(r.actor.at), corr, cause)
}

// liveValues are the columns from run_id to changed_at.
const liveValues = `
       ($2::uuid[])[i], coalesce(($3::uuid[])[i], ($3::uuid[])[1]), coalesce(($4::int[])[i], ($4::int[])[1]),
       ($5::text[])[coalesce(($6::int[])[i], 1)], ($7::text[])[coalesce(($8::int[])[i], 1)], ($9::text[])[coalesce(($10::int[])[i], 1)],
       coalesce(($11::smallint[])[i], ($11::smallint[])[1]), coalesce(($12::timestamptz[])[i], ($12::timestamptz[])[1]),
       coalesce(($13::timestamptz[])[i], ($13::timestamptz[])[1]), coalesce(($14::int[])[i], ($14::int[])[1]), coalesce(($15::int[])[i], ($15::int[])[1]),
       coalesce(($16::int[])[i], ($16::int[])[1]), coalesce(($17::int[])[i], ($17::int[])[1]), coalesce(($18::timestamptz[])[i], ($18::timestamptz[])[1])`

// Index: due_runs_pkey, due_runs_lane and due_runs_job are written.
const insertDue = `
INSERT INTO due_runs (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
                      version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since)
SELECT ` + liveValues + `, args, coalesce(($19::bool[])[i], ($19::bool[])[1]), ($20::timestamptz[])[i]
  FROM unnest($1::bytea[]) WITH ORDINALITY AS u(args, i)`

// Index: waiting_runs_pkey, waiting_runs_key and waiting_runs_job are written.
const insertWaiting = `
INSERT INTO waiting_runs (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
                          version, attempt, dispatches, claims, changed_at, args, catch_up, waiting_since, limit_key)
SELECT ` + liveValues + `, args, coalesce(($19::bool[])[i], ($19::bool[])[1]), ($20::timestamptz[])[i], limit_key
  FROM unnest($1::bytea[], $21::text[]) WITH ORDINALITY AS u(args, limit_key, i)`

// Index: claims_pkey is written.
const insertClaims = `
INSERT INTO claims (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
                    version, attempt, dispatches, claims, changed_at, args, claim_id, lease_until)
SELECT ` + liveValues + `, args, ($19::uuid[])[i], coalesce(($20::timestamptz[])[i], ($20::timestamptz[])[1])
  FROM unnest($1::bytea[]) WITH ORDINALITY AS u(args, i)`

// column is a column as it is sent: one value alone where all are the same.
func column[T comparable](all []T) []T {
	for _, v := range all {
		if v != all[0] {
			return all
		}
	}
	return all[:min(len(all), 1)]
}

// texts are a column of texts of which few are distinct.
type texts struct {
	distinct []string
	at       []int32 // for every row the place among them, from 1 on
}

func (t *texts) add(s string) {
	if n := len(t.at); n > 0 && t.distinct[t.at[n-1]-1] == s {
		t.at = append(t.at, t.at[n-1])
		return
	}
	i := slices.Index(t.distinct, s)
	if i < 0 {
		i = len(t.distinct)
		t.distinct = append(t.distinct, s)
	}
	t.at = append(t.at, int32(i+1))
}

func (t *texts) row(i int) string { return t.distinct[t.at[i]-1] }

// liveRows gathers runs for one INSERT into due_runs or claims.
type liveRows struct {
	ids, jobs                  []uuid.UUID
	jobVersion                 []int32
	origin, queue, kind        texts
	priority                   []int16
	scheduled, ready, changed  []time.Time
	version, attempt, dispatch []int32
	claims                     []int32
	args                       [][]byte
	catchUp                    []bool
	waitingSince               []*time.Time
	waited                     bool // some run did
	claimIDs                   []uuid.UUID
	lease                      []time.Time
}

// grow makes room for n more rows.
func (l *liveRows) grow(n int) {
	l.ids, l.jobs, l.claimIDs = slices.Grow(l.ids, n), slices.Grow(l.jobs, n), slices.Grow(l.claimIDs, n)
	l.origin.at, l.queue.at, l.kind.at = slices.Grow(l.origin.at, n), slices.Grow(l.queue.at, n), slices.Grow(l.kind.at, n)
	l.jobVersion, l.priority, l.version = slices.Grow(l.jobVersion, n), slices.Grow(l.priority, n), slices.Grow(l.version, n)
	l.attempt, l.dispatch, l.claims = slices.Grow(l.attempt, n), slices.Grow(l.dispatch, n), slices.Grow(l.claims, n)
	l.scheduled, l.ready, l.changed, l.lease = slices.Grow(l.scheduled, n), slices.Grow(l.ready, n), slices.Grow(l.changed, n), slices.Grow(l.lease, n)
	l.args, l.catchUp, l.waitingSince = slices.Grow(l.args, n), slices.Grow(l.catchUp, n), slices.Grow(l.waitingSince, n)
}

func (l *liveRows) add(r domain.Run) {
	l.ids, l.jobs = append(l.ids, r.ID), append(l.jobs, r.JobID)
	l.jobVersion = append(l.jobVersion, int32(r.JobVersion))
	l.origin.add(string(r.Origin))
	l.queue.add(r.Queue)
	l.kind.add(r.Kind)
	l.priority = append(l.priority, int16(r.Priority))
	l.scheduled, l.ready, l.changed = append(l.scheduled, r.ScheduledAt), append(l.ready, r.ReadyAt), append(l.changed, r.ChangedAt)
	l.version, l.attempt = append(l.version, int32(r.Version)), append(l.attempt, int32(r.Attempt))
	l.dispatch, l.claims = append(l.dispatch, int32(r.Dispatches)), append(l.claims, int32(r.Claims))
	l.args = append(l.args, r.Args)
	l.catchUp = append(l.catchUp, r.CatchUp)
	var since *time.Time
	if !r.WaitingSince.IsZero() {
		since, l.waited = &r.WaitingSince, true
	}
	l.waitingSince = append(l.waitingSince, since)
	l.claimIDs, l.lease = append(l.claimIDs, r.ClaimID), append(l.lease, r.LeaseUntil)
}

// run gives back the i-th run that was added, as a due row has it.
func (l *liveRows) run(i int) domain.Run {
	return domain.Run{
		ID: l.ids[i], JobID: l.jobs[i], JobVersion: int(l.jobVersion[i]), Origin: domain.Origin(l.origin.row(i)), Queue: l.queue.row(i), Kind: l.kind.row(i),
		Priority: int(l.priority[i]), ScheduledAt: l.scheduled[i], ReadyAt: l.ready[i], ChangedAt: l.changed[i], Version: int(l.version[i]),
		Attempt: int(l.attempt[i]), Dispatches: int(l.dispatch[i]), Claims: int(l.claims[i]), Args: l.args[i], CatchUp: l.catchUp[i],
		WaitingSince: deref(l.waitingSince[i]), State: domain.Pending,
	}
}

func (l *liveRows) columns() []any {
	return []any{l.args, l.ids, column(l.jobs), column(l.jobVersion), l.origin.distinct, column(l.origin.at), l.queue.distinct, column(l.queue.at),
		l.kind.distinct, column(l.kind.at), column(l.priority), column(l.scheduled), column(l.ready), column(l.version), column(l.attempt),
		column(l.dispatch), column(l.claims), column(l.changed)}
}

// since is the column waiting_since.
func (l *liveRows) since() []*time.Time {
	if !l.waited {
		return nil
	}
	return l.waitingSince
}

// queueDue inserts the runs as due and has the database refuse a commit that
// comes so late that claimers look past their ready times.
func (l *liveRows) queueDue(b *pgx.Batch) {
	if len(l.ids) == 0 {
		return
	}
	b.Queue(insertDue, append(l.columns(), column(l.catchUp), l.since())...)
	b.Queue("SELECT daybook_expect_fresh()")
}

func (l *liveRows) queueClaims(b *pgx.Batch) {
	if len(l.ids) > 0 {
		b.Queue(insertClaims, append(l.columns(), l.claimIDs, column(l.lease))...)
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
