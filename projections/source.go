package projections

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// The limits of a page: events, and roughly the bytes that they hold. The limit
// of events follows the size of those that come.
const (
	fewest    = 100
	pageBytes = 16 << 20
)

func (m *member) fit(page []eventstore.Recorded, most int) {
	size := 0
	for _, rec := range page {
		size += len(rec.Data)
	}
	switch {
	case size > pageBytes:
		m.limit = max(min(fewest, most), m.limit/2)
	case size < pageBytes/4:
		m.limit = min(most, m.limit*2)
	}
}

// In the log's order a run's events come in pages of their own, and each page
// writes the run's row. A follower that has most of the log before it scans
// instead: it notes the end of the log, reads all streams one after the other,
// each from its beginning, and goes on with windows from that end. A row is
// written one time then. What was committed before the end was noted is seen by
// the scan; what comes after is in the windows. Some events are in both, and some
// were applied long ago: projections ignore them.

// scan is a place in the log between two events of its streams.
type scan struct {
	Until    eventstore.Cursor `json:"until"`
	Category domain.Category   `json:"category"`
	Stream   uuid.UUID         `json:"stream"`
	Version  int               `json:"version"`
}

const eventColumns = `e.category, e.stream_id, e.version, e.position, e.era, e.type, e.schema_version, e.at, e.actor, e.correlation, e.causation, e.data`

// Index: the primary keys of the partitions, in their order. The category is in
// the text so that the partitions of the other are not even planned for.
const (
	scanRuns = `SELECT ` + eventColumns + ` FROM events e
 WHERE e.category = 'run' AND e.stream_id >= $1 AND (e.stream_id, e.version) > ($1, $2) ORDER BY e.stream_id, e.version LIMIT $3`
	scanJobs = `SELECT ` + eventColumns + ` FROM events e
 WHERE e.category = 'job' AND e.stream_id >= $1 AND (e.stream_id, e.version) > ($1, $2) ORDER BY e.stream_id, e.version LIMIT $3`
)

// Index: none; the sequence is one row.
const lastPosition = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_position`

// farBehind weighs reading what is left in windows, each event with a share of
// several writes of its row, against reading all events as they lie, most of them
// to be written one time or ignored.
func farBehind(behind, total int64, limit int) bool {
	const pages = 20 // fewer are read in no time
	return behind > int64(pages*limit) && behind > total/2
}

// read reads the next page and tells where the follower is after it, and whether
// that is the end of the log.
func (f *Follower) read(ctx context.Context, m *member) (page []eventstore.Recorded, next checkpoint, end bool, err error) {
	next = m.at
	if next.Scan == nil && m.far {
		if next.Scan, err = f.beginScan(ctx, next); err != nil {
			return nil, next, false, err
		}
		m.far = false
	}
	if next.Scan != nil {
		page, next, err = f.readScan(ctx, next, m.limit)
		return page, next, false, err
	}
	page, next.Cursor, end, err = f.store.ReadSome(ctx, next.Cursor, m.limit)
	return page, next, end, err
}

func (f *Follower) beginScan(ctx context.Context, at checkpoint) (*scan, error) {
	var last int64
	if err := f.store.Pool().QueryRow(ctx, lastPosition).Scan(&last); err != nil {
		return nil, fmt.Errorf("read end of log: %w", err)
	}
	if at.Era != 0 && !f.farBehind(last-at.Applied, last, f.limit) {
		return nil, nil
	}
	end, err := f.store.End(ctx)
	if err != nil {
		return nil, err
	}
	return &scan{Until: end, Category: domain.CategoryJob}, nil
}

func (f *Follower) readScan(ctx context.Context, at checkpoint, limit int) (page []eventstore.Recorded, next checkpoint, err error) {
	next = at
	s := *at.Scan
	sql := scanRuns
	if s.Category == domain.CategoryJob {
		sql = scanJobs
	}
	page, err = f.scanPage(ctx, sql, s, limit)
	if err != nil {
		return nil, next, fmt.Errorf("scan log: %w", err)
	}
	switch {
	case len(page) == limit:
		last := page[len(page)-1]
		s.Stream, s.Version = last.StreamID, last.Version
		next.Scan = &s
	case s.Category == domain.CategoryJob:
		next.Scan = &scan{Until: s.Until, Category: domain.CategoryRun}
	default:
		next.Scan, next.Cursor = nil, s.Until
	}
	return page, next, nil
}

func (f *Follower) scanPage(ctx context.Context, sql string, s scan, limit int) ([]eventstore.Recorded, error) {
	rows, err := f.store.Pool().Query(ctx, sql, s.Stream, s.Version, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRecorded)
}

func scanRecorded(row pgx.CollectableRow) (eventstore.Recorded, error) {
	var r eventstore.Recorded
	err := row.Scan((*string)(&r.Category), (*[16]byte)(&r.StreamID), &r.Version, &r.Position, &r.Era, &r.Type, &r.SchemaVersion, &r.At, &r.Actor, &r.Correlation, &r.Causation, &r.Data)
	r.At = r.At.UTC()
	return r, err
}
