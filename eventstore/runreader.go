package eventstore

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

const runColumns = `run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
	version, attempt, dispatches, claims, changed_at, args`

const dueColumns = runColumns + `, catch_up, waiting_since`

const claimColumns = runColumns + `, claim_id, lease_until, start_token, worker, started_at, deadline, cancel, cancel_reason`

// runReader reads the live rows of one query. A text that is the one of the row
// before is not made again.
type runReader struct {
	rawRow
	origin, queue, kind, worker string
}

// due reads a row of due_runs or waiting_runs.
func (r *runReader) due(rows pgx.Rows) (domain.Run, error) {
	if !r.begin(rows) {
		return scanDue(rows)
	}
	run := domain.Run{State: domain.Pending}
	r.run(&run)
	run.CatchUp = r.bool()
	run.WaitingSince = r.maybeTime()
	if r.odd {
		return scanDue(rows)
	}
	return run, nil
}

// claim reads a row of claims.
func (r *runReader) claim(rows pgx.Rows) (domain.Run, error) {
	if !r.begin(rows) {
		return scanClaim(rows)
	}
	run := domain.Run{State: domain.Claimed}
	r.run(&run)
	run.ClaimID, run.LeaseUntil = r.id(), r.time()
	if token := r.next(); token == nil {
		r.next()
		r.next()
	} else {
		run.State, run.Token = domain.Running, r.idOf(token)
		run.Worker, run.StartedAt = r.text(&r.worker), r.maybeTime()
	}
	if d := r.maybeTime(); !d.IsZero() {
		run.Deadline = &d
	}
	run.CancelRequested = r.bool()
	run.CancelReason = string(r.next())
	if r.odd {
		return scanClaim(rows)
	}
	return run, nil
}

func (r *runReader) run(run *domain.Run) {
	run.ID, run.JobID, run.JobVersion = r.id(), r.id(), r.int32()
	run.Origin, run.Queue, run.Kind = domain.Origin(r.text(&r.origin)), r.text(&r.queue), r.text(&r.kind)
	run.Priority, run.ScheduledAt, run.ReadyAt = r.int16(), r.time(), r.time()
	run.Version, run.Attempt, run.Dispatches, run.Claims = r.int32(), r.int32(), r.int32(), r.int32()
	run.ChangedAt = r.time()
	run.Args = r.bytes()
}

// scanDue reads a row of due_runs in any form.
func scanDue(rows pgx.Rows) (domain.Run, error) {
	r := domain.Run{State: domain.Pending}
	var since *time.Time
	err := rows.Scan(append(runTargets(&r), &r.CatchUp, &since)...)
	if since != nil {
		r.WaitingSince = since.UTC()
	}
	return inUTC(r), err
}

// scanClaim reads a row of claims in any form.
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
