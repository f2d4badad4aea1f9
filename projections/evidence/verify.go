package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Violation is one thing that is not as it must be.
type Violation struct {
	Rule   string `json:"rule"`
	Stream string `json:"stream,omitempty"` // run or job
	What   string `json:"what"`
}

// Rules of a verification.
const (
	RuleLegalPath  = "legal_path"   // a stream is a path that the lifecycle allows, final events last and alone
	RuleVersions   = "versions"     // versions count from 1 without a gap
	RuleLiveRow    = "live_row"     // a run that is not final lies in precisely one table, as its stream says
	RuleLapsed     = "lapsed_claim" // a claim whose lease is over is closed, so that its run is dispatched again
	RuleJobRow     = "job_row"      // a job's row is what its stream says
	RuleSlot       = "slot"         // an instant of the ledger has its run
	RuleKey        = "key"          // a key has its run
	RulePlaces     = "places"       // places are held by runs that are not final
	RuleProjection = "projection"   // read models equal the fold of the log
	RuleTimes      = "event_times"  // times do not run backwards within a stream
	RuleDispatch   = "dispatch"     // a claim that nobody has started lies in the outbox or with the broker
)

// Report is what a verification found.
type Report struct {
	Streams    int                     `json:"streams"`
	Events     int                     `json:"events"`
	Live       int                     `json:"live_runs"`
	Violations []Violation             `json:"violations"` // the first of them
	Count      int                     `json:"violation_count"`
	Projection projections.CheckReport `json:"projection"`
	Dispatch   DispatchCheck           `json:"dispatch"`
}

const shownViolations = 1000

func (r *Report) add(rule string, stream uuid.UUID, format string, args ...any) {
	if r.Count++; len(r.Violations) < shownViolations {
		v := Violation{Rule: rule, What: fmt.Sprintf(format, args...)}
		if stream != uuid.Nil {
			v.Stream = stream.String()
		}
		r.Violations = append(r.Violations, v)
	}
}

// Progress is told how many events have been folded.
type Progress func(events int)

// Verify folds every stream and holds the rows beside the log against it. It
// reads from one snapshot, so that what commits meanwhile is no violation; the
// projection is compared as far as its follower is. Dispatches are looked for as
// they are afterwards, since the broker has no snapshots.
func (a *Auditor) Verify(ctx context.Context, progress Progress) (Report, error) {
	r := Report{Violations: []Violation{}}
	err := a.verifyLog(ctx, &r, progress)
	if err != nil {
		return r, err
	}
	if r.Projection, err = projections.Check(ctx, a.store, projections.RunSummariesName, 0); err != nil {
		return r, err
	}
	for _, d := range r.Projection.Drift {
		r.add(RuleProjection, uuid.Nil, "%s %s: %s", d.Table, d.Key, d.What)
	}
	err = a.verifyDispatches(ctx, &r)
	return r, err
}

// verifyLog gives its snapshot back as soon as it can: what is deleted meanwhile
// lies in the way of claims.
func (a *Auditor) verifyLog(ctx context.Context, r *Report, progress Progress) error {
	conn, err := a.store.Pool().Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	// The snapshot is kept open between statements, longer than a writer may.
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	v := &verifier{tx: tx, report: r, open: map[uuid.UUID]domain.Run{}, known: map[uuid.UUID]domain.Job{}, progress: progress}
	for _, step := range []func(context.Context) error{v.runs, v.jobs, v.jobRows, v.liveRows, v.slots, v.keys, v.places} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type verifier struct {
	tx       pgx.Tx
	report   *Report
	open     map[uuid.UUID]domain.Run // runs that are not final, by the log
	known    map[uuid.UUID]domain.Job // every job, by the log
	progress Progress
}

// Index: the primary keys of the partitions, in their order.
const selectInOrder = `
SELECT e.stream_id, e.version, e.type, e.schema_version, e.at, e.data
  FROM events e WHERE e.category = $1 AND (e.stream_id, e.version) > ($2, $3) ORDER BY e.stream_id, e.version LIMIT $4`

const verifyPage = 10_000

// walk reads all events of a category, stream after stream.
func (v *verifier) walk(ctx context.Context, category domain.Category, see func(eventstore.Recorded)) error {
	var stream uuid.UUID
	version := 0
	for {
		rows, err := v.tx.Query(ctx, selectInOrder, category, stream, version, verifyPage)
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		n := 0
		for rows.Next() {
			var rec eventstore.Recorded
			if err := rows.Scan(&rec.StreamID, &rec.Version, &rec.Type, &rec.SchemaVersion, &rec.At, &rec.Data); err != nil {
				rows.Close()
				return err
			}
			see(rec)
			stream, version = rec.StreamID, rec.Version
			n++
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		v.report.Events += n
		if v.progress != nil {
			v.progress(v.report.Events)
		}
		if n < verifyPage {
			return nil
		}
	}
}

// fold is a stream on its way through a walk.
type fold[S any] struct {
	id      uuid.UUID
	state   S
	version int
	at      time.Time
	broken  bool
}

func (f *fold[S]) begin(v *verifier, rec eventstore.Recorded, state S) {
	*f = fold[S]{id: rec.StreamID, state: state}
	v.report.Streams++
}

// check holds an event's version and time against the one before it.
func (f *fold[S]) check(v *verifier, rec eventstore.Recorded) {
	if rec.Version != f.version+1 {
		v.report.add(RuleVersions, rec.StreamID, "version %d follows version %d", rec.Version, f.version)
	}
	if rec.At.Before(f.at) {
		v.report.add(RuleTimes, rec.StreamID, "version %d (%s) is dated before version %d (%s)", rec.Version, clock(rec.At), f.version, clock(f.at))
	}
	f.version, f.at = rec.Version, rec.At
}

func (v *verifier) runs(ctx context.Context) error {
	var f fold[domain.Run]
	end := func() {
		if f.id != uuid.Nil && !f.broken && !f.state.State.Terminal() {
			v.open[f.id] = f.state
		}
	}
	err := v.walk(ctx, domain.CategoryRun, func(rec eventstore.Recorded) {
		if rec.StreamID != f.id {
			end()
			f.begin(v, rec, domain.Run{ID: rec.StreamID})
		}
		f.check(v, rec)
		if f.broken {
			return
		}
		e, err := rec.Event()
		re, ok := e.(domain.RunEvent)
		if err == nil && !ok {
			err = fmt.Errorf("%s is no event of a run", rec.Type)
		}
		if err == nil {
			f.state, err = domain.EvolveRun(f.state, re, rec.At)
		}
		if err != nil {
			f.broken = true
			v.report.add(RuleLegalPath, rec.StreamID, "version %d: %v", rec.Version, err)
		}
	})
	end()
	return err
}

func (v *verifier) jobs(ctx context.Context) error {
	var f fold[domain.Job]
	end := func() {
		if f.id != uuid.Nil && !f.broken {
			v.known[f.id] = f.state
		}
	}
	defer func() { end() }()
	return v.walk(ctx, domain.CategoryJob, func(rec eventstore.Recorded) {
		if rec.StreamID != f.id {
			end()
			f.begin(v, rec, domain.Job{ID: rec.StreamID})
		}
		f.check(v, rec)
		if f.broken {
			return
		}
		e, err := rec.Event()
		je, ok := e.(domain.JobEvent)
		if err == nil && !ok {
			err = fmt.Errorf("%s is no event of a job", rec.Type)
		}
		if err == nil {
			f.state, err = domain.EvolveJob(f.state, je, rec.At)
		}
		if err != nil {
			f.broken = true
			v.report.add(RuleLegalPath, rec.StreamID, "version %d: %v", rec.Version, err)
		}
	})
}
