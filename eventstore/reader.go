package eventstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
)

// Cursor is how far a reader of the whole log is. The zero Cursor is the
// beginning. Its fields are for storage only.
//
// A reader has everything that the snapshot Prev sees. While it is inside a
// window, it also has what Next sees up to Position.
type Cursor struct {
	Era      int    `json:"era"`
	Prev     string `json:"prev,omitempty"`
	Next     string `json:"next,omitempty"`
	Position int64  `json:"position,omitempty"`
}

// Validate reports a cursor that cannot have come from a reader. What it accepts
// is at worst a wrong place.
func (c Cursor) Validate() error {
	if c.Era < 0 || c.Position < 0 || c.Next != "" && c.Prev == "" || c.Era > 0 && c.Prev == "" {
		return errors.New("not a place in the log")
	}
	for _, s := range []string{c.Prev, c.Next} {
		if s != "" && !snapshotText.MatchString(s) {
			return errors.New("not a place in the log")
		}
	}
	return nil
}

// snapshotText is how PostgreSQL writes a snapshot: xmin, xmax, and what was
// open in between.
var snapshotText = regexp.MustCompile(`^[0-9]{1,20}:[0-9]{1,20}:([0-9]{1,20}(,[0-9]{1,20})*)?$`)

// A window is what one snapshot sees and an earlier one did not, ordered by
// position. Two facts make it right where an order by position or by xid alone
// is not:
//
//   - Nothing is missed: a transaction that was open at the first snapshot is in
//     no window until it has ended, and then it is in one, however low its
//     positions are. Nothing waits for it meanwhile.
//   - A stream is in order: a writer takes the stream's row lock before it draws
//     a position, so positions grow within a stream; and a snapshot that sees a
//     version sees those before it.
//
// The second branch finds the stragglers, transactions that the first snapshot
// saw open. Index: events_xid in both.
const readWindow = `
WITH w AS MATERIALIZED (
  SELECT $2::pg_snapshot AS prev, coalesce($3::pg_snapshot, pg_current_snapshot()) AS next)
SELECT w.next::text, ` + recordedColumns + `
  FROM w LEFT JOIN LATERAL (
    SELECT x.* FROM events x
     WHERE x.era = $1 AND x.xid >= pg_snapshot_xmax(w.prev) AND x.xid < pg_snapshot_xmax(w.next)
       AND pg_visible_in_snapshot(x.xid, w.next) AND x.position > $4
    UNION ALL
    SELECT x.* FROM events x
     WHERE x.era = $1 AND x.xid = ANY (ARRAY (SELECT pg_snapshot_xip(w.prev)))
       AND pg_visible_in_snapshot(x.xid, w.next) AND x.position > $4
    ORDER BY position LIMIT $5) e ON true
 ORDER BY e.position`

// An era that is over has no more writers, and its xids mean nothing to today's
// snapshots. What its last reader had is still told by its last snapshot: a
// comparison of stored numbers. Index: events_xid.
const readPastEra = `
SELECT ` + recordedColumns + `
  FROM events e
 WHERE e.era = $1 AND e.xid >= pg_snapshot_xmin($2::pg_snapshot) AND NOT pg_visible_in_snapshot(e.xid, $2::pg_snapshot)
   AND ($3::pg_snapshot IS NULL OR pg_visible_in_snapshot(e.xid, $3::pg_snapshot)) AND e.position > $4
 ORDER BY e.position LIMIT $5`

// Index: eras_pkey.
const nextEra = `SELECT coalesce((SELECT min(era) FROM eras WHERE era > $1), 0)`

// emptySnapshot sees nothing: it is before the first transaction.
const emptySnapshot = "1:1:"

// Read returns up to limit events after the cursor, in commit-safe order: every
// committed event is returned by some call, none twice, and the events of a
// stream in the order of their versions. It never waits for a writer. Fewer
// events than the limit mean that the reader was at the end; the returned cursor
// is where to go on, also when there was nothing.
func (s *Store) Read(ctx context.Context, c Cursor, limit int) ([]Recorded, Cursor, error) {
	var out []Recorded
	for {
		if c.Era == 0 {
			first, err := s.eraAfter(ctx, 0)
			if err != nil {
				return nil, c, err
			}
			c = Cursor{Era: first, Prev: emptySnapshot}
		}
		later, err := s.eraAfter(ctx, c.Era)
		if err != nil {
			return nil, c, err
		}
		page, next, done, err := s.readPage(ctx, c, later, limit-len(out))
		if err != nil {
			return nil, c, fmt.Errorf("read log: %w", err)
		}
		out, c = append(out, page...), next
		if done || len(out) >= limit {
			return out, c, nil
		}
	}
}

// readPage reads part of one window. It is done when the window was the present
// and had no more.
func (s *Store) readPage(ctx context.Context, c Cursor, later, limit int) (page []Recorded, next Cursor, done bool, err error) {
	var upper *string
	if c.Next != "" {
		upper = &c.Next
	}
	if later != 0 {
		page, err = s.scanPage(ctx, nil, readPastEra, c.Era, c.Prev, upper, c.Position, limit)
	} else {
		var until string
		page, err = s.scanPage(ctx, &until, readWindow, c.Era, c.Prev, upper, c.Position, limit)
		if upper == nil {
			upper = &until
		}
	}
	if err != nil {
		return nil, c, false, err
	}
	next = c
	switch {
	case len(page) == limit: // stay inside the window
		next.Next, next.Position = deref(upper), page[len(page)-1].Position
	case later == 0: // the window is finished
		next.Prev, next.Next, next.Position = *upper, "", 0
		done = c.Next == ""
	case upper != nil: // the last window of a past era; what came after it follows
		next.Prev, next.Next, next.Position = *upper, "", 0
	default: // the past era is finished
		next = Cursor{Era: later, Prev: emptySnapshot}
	}
	return page, next, done, nil
}

func (s *Store) scanPage(ctx context.Context, until *string, sql string, args ...any) ([]Recorded, error) {
	rows, err := s.loops.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var page []Recorded
	err = eachRow(rows, func(rows pgx.Rows) error {
		if until == nil {
			r, err := scanRecorded(rows)
			page = append(page, r)
			return err
		}
		if rows.RawValues()[1] == nil { // the window is empty: only its end came
			return rows.Scan(append([]any{until}, make([]any, 12)...)...)
		}
		r, err := scanWindowed(rows, until)
		page = append(page, r)
		return err
	})
	return page, err
}

func scanWindowed(rows pgx.Rows, until *string) (Recorded, error) {
	var r Recorded
	err := rows.Scan(until, &r.Category, &r.StreamID, &r.Version, &r.Position, &r.Era, &r.Type, &r.SchemaVersion, &r.At, &r.Actor, &r.Correlation, &r.Causation, &r.Data)
	r.At = r.At.UTC()
	return r, err
}

func (s *Store) eraAfter(ctx context.Context, era int) (later int, err error) {
	if err := s.loops.QueryRow(ctx, nextEra, era).Scan(&later); err != nil {
		return 0, fmt.Errorf("read eras: %w", err)
	}
	return later, nil
}

// End is a cursor at the end of the log: everything that is committed now is
// behind it.
func (s *Store) End(ctx context.Context) (Cursor, error) {
	c := Cursor{}
	err := s.loops.QueryRow(ctx, "SELECT (SELECT max(era) FROM eras), pg_current_snapshot()::text").Scan(&c.Era, &c.Prev)
	if err != nil {
		return c, fmt.Errorf("read end of log: %w", err)
	}
	return c, nil
}

// Index: none that serves position; a scan of the log. For people who name a
// position, not for readers that go on from where they were.
const eraAt = `
SELECT e.era, (SELECT max(era) FROM eras), pg_current_snapshot()::text FROM events e WHERE e.position > $1 ORDER BY e.position LIMIT 1`

// After is a cursor from which to read what has a position above the given one,
// among what is committed now; what commits later follows whatever its position.
func (s *Store) After(ctx context.Context, position int64) (Cursor, error) {
	if position <= 0 {
		return Cursor{}, nil
	}
	c := Cursor{Prev: emptySnapshot, Position: position}
	var current int
	var snapshot string
	err := s.loops.QueryRow(ctx, eraAt, position).Scan(&c.Era, &current, &snapshot)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.End(ctx)
	}
	if err != nil {
		return c, fmt.Errorf("find position %d: %w", position, err)
	}
	if c.Era == current {
		c.Next = snapshot
	}
	return c, nil
}
