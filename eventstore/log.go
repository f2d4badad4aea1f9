package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Recorded is an event as it stands in the log.
type Recorded struct {
	Category      domain.Category
	StreamID      uuid.UUID
	Version       int
	Position      int64 // place in the log; grows within a stream, gaps are normal
	Era           int
	Type          string
	SchemaVersion int
	At            time.Time
	Actor         string
	Correlation   *uuid.UUID
	Causation     *uuid.UUID
	Data          []byte // JSON
}

// Event decodes the event. The error wraps domain.ErrUnknownEvent when a newer
// binary wrote it.
func (r Recorded) Event() (domain.Event, error) {
	return domain.DecodeEvent(r.Type, r.SchemaVersion, r.Data)
}

const recordedColumns = `e.category, e.stream_id, e.version, e.position, e.era, e.type, e.schema_version, e.at, e.actor, e.correlation, e.causation, e.data`

// recordedReader reads the events of one query. A type or an actor that is the one
// of the row before is not made again.
type recordedReader struct {
	rawRow
	category, typ, actor string
}

// read reads a row of recordedColumns.
func (r *recordedReader) read(rows pgx.Rows) (Recorded, error) {
	if r.begin(rows) {
		if e := r.event(); !r.odd {
			return e, nil
		}
	}
	return scanRecorded(rows)
}

func (r *recordedReader) event() Recorded {
	return Recorded{
		Category: domain.Category(r.text(&r.category)), StreamID: r.id(), Version: r.int32(), Position: r.int64(), Era: r.int16(),
		Type: r.text(&r.typ), SchemaVersion: r.int16(), At: r.time(), Actor: r.text(&r.actor), Correlation: r.maybeID(), Causation: r.maybeID(), Data: r.bytes(),
	}
}

// scanRecorded reads a row of recordedColumns in any form.
func scanRecorded(rows pgx.Rows) (Recorded, error) {
	var r Recorded
	err := rows.Scan(&r.Category, &r.StreamID, &r.Version, &r.Position, &r.Era, &r.Type, &r.SchemaVersion, &r.At, &r.Actor, &r.Correlation, &r.Causation, &r.Data)
	r.At = r.At.UTC()
	return r, err
}

// NewEvents are events to append to one stream. Expect is the version that the
// stream must have: 0 for a new one.
type NewEvents struct {
	Stream uuid.UUID
	Expect int
	Events []domain.Event
	Meta   Meta
}

// Append writes to several streams in one transaction: all or nothing. If a
// stream is not at the expected version the error is ErrVersionConflict. It is
// for events without a live row beside them; everything else has a method of its
// own. The returned time is what the events are dated with.
func (s *Store) Append(ctx context.Context, streams ...NewEvents) (time.Time, error) {
	tx, err := begin(ctx, s.loops, "", nil, nil)
	if err != nil {
		return time.Time{}, err
	}
	defer tx.rollback(ctx)
	var rows eventRows
	for _, st := range streams {
		for i, e := range st.Events {
			if err := rows.add(st.Stream, st.Expect+1+i, tx.now, s.meta(st.Meta), e); err != nil {
				return time.Time{}, err
			}
		}
	}
	// The key alone would let a stream begin at any version.
	b := &pgx.Batch{}
	for _, st := range streams {
		b.Queue(expectVersion, domain.CategoryOf(st.Events[0]), st.Stream, st.Expect)
	}
	rows.queue(b)
	if err := tx.commit(ctx, b); err != nil {
		if sqlState(err) == stateCountMismatch {
			return time.Time{}, fmt.Errorf("%w: %w", ErrVersionConflict, err)
		}
		return time.Time{}, conflict(err)
	}
	return tx.now, nil
}

// Index: the primary keys of the partitions, backwards, one row.
const expectVersion = `
SELECT daybook_expect('version', coalesce((SELECT version FROM events WHERE category = $1 AND stream_id = $2 ORDER BY version DESC LIMIT 1), 0), $3)`

func (s *Store) meta(m Meta) Meta {
	if m.Actor == "" {
		m.Actor = s.actor
	}
	return m
}

// Index: the primary keys of the partitions. The join, unlike = ANY, lets the
// executor skip the months that a stream is not in.
const selectStreams = `
SELECT ` + recordedColumns + `
  FROM unnest($2::uuid[]) AS u(s)
  JOIN events e ON e.category = $1 AND e.stream_id = u.s
 ORDER BY e.stream_id, e.version`

// ReadStream reads the whole stream; ErrNotFound if it has no events.
func (s *Store) ReadStream(ctx context.Context, category domain.Category, stream uuid.UUID) ([]Recorded, error) {
	rows, err := s.loops.Query(ctx, selectStreams, category, []uuid.UUID{stream})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	var out []Recorded
	var read recordedReader
	err = eachRow(rows, func(rows pgx.Rows) error {
		r, err := read.read(rows)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("stream %s: %w", stream, ErrNotFound)
	}
	return out, nil
}

// Index: the primary keys of the partitions.
const selectStreamsUntil = `
SELECT ` + recordedColumns + `
  FROM unnest($2::uuid[]) AS u(s)
  JOIN events e ON e.category = $1 AND e.stream_id = u.s
 WHERE e.at <= $3
 ORDER BY e.stream_id, e.version`

// ReadStreams reads the events of some streams that are dated up to the given
// time, stream by stream.
func (s *Store) ReadStreams(ctx context.Context, category domain.Category, streams []uuid.UUID, until time.Time) ([]Recorded, error) {
	rows, err := s.loops.Query(ctx, selectStreamsUntil, category, streams, until)
	if err != nil {
		return nil, fmt.Errorf("read streams: %w", err)
	}
	var out []Recorded
	var read recordedReader
	err = eachRow(rows, func(rows pgx.Rows) error {
		r, err := read.read(rows)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read streams: %w", err)
	}
	return out, nil
}

// foldRuns folds the streams of the runs. A run without a stream is missing.
func foldRuns(ctx context.Context, tx *txn, ids []uuid.UUID) (map[uuid.UUID]domain.Run, error) {
	runs := make(map[uuid.UUID]domain.Run, len(ids))
	var read recordedReader
	err := tx.query(ctx, selectStreams, []any{domain.CategoryRun, ids}, func(rows pgx.Rows) error {
		rec, err := read.read(rows)
		if err != nil {
			return err
		}
		e, err := rec.Event()
		if err != nil {
			return fmt.Errorf("run %s version %d: %w", rec.StreamID, rec.Version, err)
		}
		r, ok := runs[rec.StreamID]
		if !ok {
			r.ID = rec.StreamID
		}
		re, ok := e.(domain.RunEvent)
		if !ok {
			return fmt.Errorf("run %s version %d: %s is no event of a run", rec.StreamID, rec.Version, rec.Type)
		}
		if r, err = domain.EvolveRun(r, re, rec.At); err != nil {
			return err
		}
		runs[rec.StreamID] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("fold runs: %w", err)
	}
	return runs, nil
}
