package eventstore

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/daybookhq/daybook/domain"
)

const runColumns = `run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
	version, attempt, dispatches, claims, changed_at, args`

const dueColumns = runColumns + `, catch_up, waiting_since`

const claimColumns = runColumns + `, claim_id, lease_until, start_token, worker, started_at, deadline, cancel, cancel_reason`

// runReader reads the rows of one query. Live rows come by the thousand, and the
// driver looks up for every value of every row how it is to be read, which takes
// longer than reading it: rows in the protocol's binary form, as the driver asks for
// them, are read here, and whatever else comes is left to the driver and its errors.
// A text that is the one of the row before is not made again.
type runReader struct {
	origin, queue, kind, worker string

	asked, binary bool
	values        [][]byte
	odd           bool // some value is not what is expected
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
	if args := r.next(); args != nil {
		run.Args = append(make([]byte, 0, len(args)), args...)
	}
}

// begin takes a row, and reports whether the query's rows can be read here.
func (r *runReader) begin(rows pgx.Rows) bool {
	if !r.asked {
		r.asked, r.binary = true, true
		for _, f := range rows.FieldDescriptions() { // a text is the same in both forms
			r.binary = r.binary && (f.Format == pgtype.BinaryFormatCode || f.DataTypeOID == pgtype.TextOID)
		}
	}
	r.values, r.odd = rows.RawValues(), false
	return r.binary
}

// next is the row's next value, nil if it is NULL. It is the driver's memory.
func (r *runReader) next() []byte {
	if len(r.values) == 0 {
		r.odd = true
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

// fixed is the next value, which has n bytes.
func (r *runReader) fixed(n int) []byte {
	v := r.next()
	if len(v) != n {
		r.odd = true
		return make([]byte, n)
	}
	return v
}

func (r *runReader) id() uuid.UUID { return uuid.UUID(r.fixed(len(uuid.UUID{}))) }

func (r *runReader) idOf(v []byte) (id uuid.UUID) {
	r.odd = r.odd || copy(id[:], v) != len(id)
	return id
}

func (r *runReader) int16() int { return int(int16(binary.BigEndian.Uint16(r.fixed(2)))) }
func (r *runReader) int32() int { return int(int32(binary.BigEndian.Uint32(r.fixed(4)))) }
func (r *runReader) bool() bool { return r.fixed(1)[0] != 0 }

func (r *runReader) time() time.Time { return r.timeOf(r.fixed(8)) }

// maybeTime is zero for NULL.
func (r *runReader) maybeTime() time.Time {
	v := r.next()
	if v == nil {
		return time.Time{}
	}
	if len(v) != 8 {
		r.odd = true
		return time.Time{}
	}
	return r.timeOf(v)
}

func (r *runReader) timeOf(v []byte) time.Time {
	us := int64(binary.BigEndian.Uint64(v))
	if us == math.MaxInt64 || us == math.MinInt64 { // infinity
		r.odd = true
		return time.Time{}
	}
	return time.UnixMicro(us + year2000).UTC()
}

// text is the next value; as last had it, if it is the same.
func (r *runReader) text(last *string) string {
	v := r.next()
	if v == nil {
		r.odd = true
		return ""
	}
	if string(v) != *last {
		*last = string(v)
	}
	return *last
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
