package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookhq/daybook/domain"
)

// NotRetiredError says why the database did not let go of a month.
type NotRetiredError struct {
	Month string
	Why   string
}

func (e *NotRetiredError) Error() string { return fmt.Sprintf("%s stays: %s", e.Month, e.Why) }

// ErrInTheWay says that the database could not let go of a month because somebody
// reads the log just now.
var ErrInTheWay = errors.New("the log is being read")

// stateNotRetired is raised by daybook_retire_month.
const stateNotRetired = "DB003"

// Spans are how long history is kept; nil means for ever.
type Spans struct {
	Runs    *time.Duration
	Outputs *time.Duration
}

// Index: retention_pkey.
const selectSpans = `SELECT keep_runs, keep_outputs FROM retention`

// Spans reads how long history is kept.
func (s *Store) Spans(ctx context.Context) (k Spans, err error) {
	if err := s.loops.QueryRow(ctx, selectSpans).Scan(&k.Runs, &k.Outputs); err != nil {
		return k, fmt.Errorf("read retention: %w", err)
	}
	return k, nil
}

// SpanChange changes spans: nil leaves one as it is, and zero stands for ever.
type SpanChange struct{ Runs, Outputs *time.Duration }

// Index: retention_pkey.
const updateSpans = `
UPDATE retention SET keep_runs = CASE WHEN $1::interval IS NULL THEN keep_runs ELSE nullif($1, interval '0') END,
       keep_outputs = CASE WHEN $2::interval IS NULL THEN keep_outputs ELSE nullif($2, interval '0') END, changed_at = now(), changed_by = $3
RETURNING keep_runs, keep_outputs`

// SetSpans changes how long history is kept. The connection is the owner's: the
// engine's role may not.
func SetSpans(ctx context.Context, dsn string, change SpanChange, who string) (k Spans, err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return k, fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	err = c.QueryRow(ctx, updateSpans, change.Runs, change.Outputs, who).Scan(&k.Runs, &k.Outputs)
	switch sqlState(err) {
	case "42501":
		return k, fmt.Errorf("change retention: only the owner of the tables may: %w", err)
	case "23514":
		return k, errors.New("change retention: runs are kept for a day at least, and outputs for an hour")
	}
	if err != nil {
		return k, fmt.Errorf("change retention: %w", err)
	}
	return k, nil
}

// LogMonth is a partition of the log: the runs of a month.
type LogMonth struct {
	Month    time.Time
	Bytes    int64
	Events   int64      // about
	NewestAt *time.Time // of its newest events, as far as a look at a few tells; nil: it has none
	Live     bool       // a run of it is not finished
}

// Name is the month as people write it.
func (m LogMonth) Name() string { return m.Month.Format("2006-01") }

// Index: the catalog's; events_xid of the partition, backwards; the primary keys
// of the tables of live runs. The newest event is among those of the last
// transactions, within what a transaction may take.
const selectLogMonths = `
SELECT p.month, p.bytes, p.events,
       (SELECT max(l.at) FROM (SELECT e.at FROM events e WHERE e.category = 'run' AND e.stream_id >= p.low AND e.stream_id < p.high ORDER BY e.xid DESC LIMIT 1000) l),
       EXISTS (SELECT FROM due_runs WHERE run_id >= p.low AND run_id < p.high) OR EXISTS (SELECT FROM waiting_runs WHERE run_id >= p.low AND run_id < p.high)
       OR EXISTS (SELECT FROM claims WHERE run_id >= p.low AND run_id < p.high) OR EXISTS (SELECT FROM parked_runs WHERE run_id >= p.low AND run_id < p.high)
  FROM (SELECT n.month, pg_total_relation_size(c.oid) AS bytes, greatest(c.reltuples, 0)::bigint AS events,
               daybook_run_bound(n.month::timestamp AT TIME ZONE 'UTC') AS low, daybook_run_bound((n.month + interval '1 month') AT TIME ZONE 'UTC') AS high
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         CROSS JOIN LATERAL to_date(right(c.relname, 6), 'YYYYMM') AS n(month)
         WHERE i.inhparent = 'events_run'::regclass) p
 ORDER BY p.month`

// LogMonths lists the partitions of runs, the oldest month first.
func (s *Store) LogMonths(ctx context.Context) ([]LogMonth, error) {
	rows, err := s.loops.Query(ctx, selectLogMonths)
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LogMonth])
	if err != nil {
		return nil, fmt.Errorf("read partitions: %w", err)
	}
	return out, nil
}

// Snapshot is what was committed at a moment, and the era it was in.
type Snapshot struct {
	Era  int
	Text string
}

// Snapshot takes one.
func (s *Store) Snapshot(ctx context.Context) (n Snapshot, err error) {
	if err := s.loops.QueryRow(ctx, "SELECT max(era), pg_current_snapshot()::text FROM eras").Scan(&n.Era, &n.Text); err != nil {
		return n, fmt.Errorf("read end of log: %w", err)
	}
	return n, nil
}

// Stored is an event with the transaction that wrote it.
type Stored struct {
	Recorded
	XID uint64
}

// Index: the primary key of the month's partition, in its order.
const selectMonthPage = `
SELECT ` + recordedColumns + `, e.xid::text
  FROM events e WHERE e.category = 'run' AND e.stream_id >= $1 AND e.stream_id < $2 AND (e.stream_id, e.version) > ($3, $4)
 ORDER BY e.stream_id, e.version LIMIT $5`

// MonthPage reads events of a month, stream by stream, those after the version
// of the stream.
func (s *Store) MonthPage(ctx context.Context, month time.Time, stream uuid.UUID, version, limit int) ([]Stored, error) {
	low := domain.FirstID(month)
	if stream == uuid.Nil {
		stream = low
	}
	rows, err := s.loops.Query(ctx, selectMonthPage, low, domain.FirstID(month.AddDate(0, 1, 0)), stream, version, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s of the log: %w", month.Format("2006-01"), err)
	}
	out := make([]Stored, 0, limit)
	err = eachRow(rows, func(rows pgx.Rows) error {
		var r Stored
		var xid string
		err := rows.Scan(&r.Category, &r.StreamID, &r.Version, &r.Position, &r.Era, &r.Type, &r.SchemaVersion, &r.At, &r.Actor, &r.Correlation, &r.Causation, &r.Data, &xid)
		if err != nil {
			return err
		}
		r.At = r.At.UTC()
		r.XID, err = strconv.ParseUint(xid, 10, 64)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s of the log: %w", month.Format("2006-01"), err)
	}
	return out, nil
}

// MonthExport is an export and the facts that say later whether it still holds
// everything.
type MonthExport struct {
	RetiredMonth
	Era  int    // of its last event
	XID  uint64 // the highest in that era
	Seen Snapshot
}

// Index: retired_months_pkey. The same content has the same checksum, so an
// export that is made again moves to where it is now.
const upsertRetired = `
INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::xid8, $13, $14::text::pg_snapshot, $15)
ON CONFLICT (month, sha256) DO UPDATE SET file = excluded.file, directory = excluded.directory, host = excluded.host, seen_era = excluded.seen_era,
  snapshot = excluded.snapshot, exported_at = clock_timestamp(), exported_by = excluded.exported_by, verified_at = NULL
WHERE retired_months.dropped_at IS NULL`

// RecordExport records that a month was exported.
func (s *Store) RecordExport(ctx context.Context, m MonthExport) error {
	tag, err := s.loops.Exec(ctx, upsertRetired, m.Month, m.SHA256, m.File, m.Directory, m.Host, m.Runs, m.Events, m.Bytes, m.NewestAt, m.Position,
		m.Era, strconv.FormatUint(m.XID, 10), m.Seen.Era, m.Seen.Text, m.ExportedBy)
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("the same file was retired before, and yet its events are in the log")
	}
	if err != nil {
		return fmt.Errorf("record export of %s: %w", m.Name(), err)
	}
	return nil
}

// Index: retired_months_pkey.
const verifyRetired = `UPDATE retired_months SET verified_at = clock_timestamp() WHERE month = $1 AND sha256 = $2 AND dropped_at IS NULL`

// RecordVerified records that the file was read back and equals the table.
func (s *Store) RecordVerified(ctx context.Context, month time.Time, sha256 string) error {
	tag, err := s.loops.Exec(ctx, verifyRetired, month, sha256)
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("there is no such export to verify")
	}
	if err != nil {
		return fmt.Errorf("record verification of %s: %w", month.Format("2006-01"), err)
	}
	return nil
}

// Index: jobs_pkey.
const lockJobByID = `SELECT ` + jobColumns + ` FROM jobs WHERE id = $1 FOR UPDATE`

// Index: events_job_pkey.
const selectRetiredBefore = `
SELECT FROM events WHERE category = 'job' AND stream_id = $1 AND type = 'RunsRetired' AND data->>'sha256' = $2 AND data->>'month' = $3 LIMIT 1`

// RecordRetired writes to a job's stream what is to outlast the events of its
// runs; all of it carries the same month and checksum. What was written before is
// not written again.
func (s *Store) RecordRetired(ctx context.Context, job uuid.UUID, events []domain.RunsRetired, m Meta) (written bool, err error) {
	err = again(ctx, func() error {
		written, err = s.recordRetired(ctx, job, events, m)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("record retired runs of job %s: %w", job, err)
	}
	return written, nil
}

func (s *Store) recordRetired(ctx context.Context, job uuid.UUID, events []domain.RunsRetired, m Meta) (bool, error) {
	var j *jobRow
	tx, err := begin(ctx, s.loops, lockJobByID, []any{job}, func(rows pgx.Rows) error {
		row, err := scanJob(rows)
		j = &row
		return err
	})
	if err != nil {
		return false, err
	}
	defer tx.rollback(ctx)
	if j == nil {
		return false, ErrNotFound
	}
	there := false
	err = tx.query(ctx, selectRetiredBefore, []any{job, events[0].SHA256, events[0].Month}, func(pgx.Rows) error {
		there = true
		return nil
	})
	if err != nil || there {
		return false, err
	}
	w := jobWrites{}
	for _, e := range events {
		if err := s.recordJobEventBy(&w, j, e, tx.now, m); err != nil {
			return false, err
		}
	}
	w.jobs = append(w.jobs, *j)
	b := &pgx.Batch{}
	if err := w.queueJobs(b); err != nil {
		return false, err
	}
	w.events.queue(b)
	return true, conflict(tx.commit(ctx, b))
}

// RetireMonth lets go of a month whose export with that checksum was verified,
// or with an empty checksum of a month without events. The error is a
// *NotRetiredError if the month must stay as it is.
func (s *Store) RetireMonth(ctx context.Context, month time.Time, sha256, who string) error {
	name := month.Format("2006-01")
	tx, err := s.loops.Begin(ctx)
	if err != nil {
		return fmt.Errorf("retire %s: %w", name, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	// A month can have millions of keys.
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return fmt.Errorf("retire %s: %w", name, err)
	}
	if _, err := tx.Exec(ctx, "SELECT daybook_retire_month($1, $2, $3)", month, sha256, who); err != nil {
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == stateNotRetired:
			return &NotRetiredError{Month: name, Why: pg.Message}
		case sqlState(err) == "55P03":
			return fmt.Errorf("%w: %w", ErrInTheWay, &NotRetiredError{Month: name, Why: "a long query reads the log, and the partition cannot be dropped under it"})
		case sqlState(err) == "42501":
			return &NotRetiredError{Month: name, Why: "this role may not: GRANT EXECUTE ON FUNCTION daybook_retire_month, or let one that may run `daybook retention run --apply`"}
		}
		return fmt.Errorf("retire %s: %w", name, err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("retire %s: %w", name, err)
	}
	return nil
}

// MayRetire asks whether RetireMonth would refuse, as things are now.
func (s *Store) MayRetire(ctx context.Context, month time.Time, sha256 string) error {
	var why *string
	if err := s.loops.QueryRow(ctx, "SELECT daybook_must_keep($1, $2)", month, sha256).Scan(&why); err != nil {
		return fmt.Errorf("retire %s: %w", month.Format("2006-01"), err)
	}
	if why != nil {
		return &NotRetiredError{Month: month.Format("2006-01"), Why: *why}
	}
	return nil
}

// Index: retention_pkey.
const leaseRetention = `UPDATE retention SET owner = $1, lease_until = clock_timestamp() + $2 WHERE lease_until <= clock_timestamp() OR owner = $1 RETURNING true`

// LeaseRetention makes this process the one that looks after retention, or goes
// on with that, for the given term. Two that did would do the same work twice,
// and no harm.
func (s *Store) LeaseRetention(ctx context.Context, owner string, term time.Duration) (held bool, err error) {
	err = s.loops.QueryRow(ctx, leaseRetention, owner, term).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lease retention: %w", err)
	}
	return held, nil
}

// OutputKey is a place among the outputs of attempts.
type OutputKey struct {
	Run     uuid.UUID
	Attempt int
}

// The rows of a page of outputs that may go: they are old, and their run is not
// in hand. Index: run_outputs_pkey, claims_pkey.
const dropOutputs = `
WITH p AS MATERIALIZED (
  SELECT o.run_id, o.attempt, o.updated_at FROM run_outputs o
   WHERE (o.run_id, o.attempt) > ($1, $2) AND o.run_id < daybook_run_bound(now() - $3::interval) ORDER BY o.run_id, o.attempt LIMIT $4),
d AS (
  DELETE FROM run_outputs o USING p WHERE o.run_id = p.run_id AND o.attempt = p.attempt AND p.updated_at < now() - $3::interval
     AND NOT EXISTS (SELECT FROM claims c WHERE c.run_id = p.run_id) RETURNING 1)
SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM p), l.run_id, l.attempt
  FROM (SELECT) one LEFT JOIN LATERAL (SELECT run_id, attempt FROM p ORDER BY run_id DESC, attempt DESC LIMIT 1) l ON true`

// DropOutputs removes, of a page of outputs behind the key, those that are older
// than the span. It returns the key to go on from.
func (s *Store) DropOutputs(ctx context.Context, after OutputKey, span time.Duration, limit int) (dropped int, next OutputKey, done bool, err error) {
	var seen int
	var run *uuid.UUID
	var attempt *int
	if err := s.loops.QueryRow(ctx, dropOutputs, after.Run, after.Attempt, span, limit).Scan(&dropped, &seen, &run, &attempt); err != nil {
		return 0, after, false, fmt.Errorf("drop outputs: %w", err)
	}
	if run == nil {
		return dropped, after, true, nil
	}
	return dropped, OutputKey{*run, *attempt}, seen < limit, nil
}
