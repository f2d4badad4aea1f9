package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

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
// saw open. A window of more rows than $6 is only recognised here, see readSlice.
// Index: events_xid in both; the sum keeps the planner from events_position, by
// which a look at the end of the log would read it from the beginning.
const readWindow = `
WITH w AS MATERIALIZED (
  SELECT $2::pg_snapshot AS prev, coalesce($3::pg_snapshot, pg_current_snapshot()) AS next),
c AS MATERIALIZED (
  SELECT x.* FROM w, LATERAL (
    SELECT x.* FROM events x
     WHERE x.era = $1 AND x.xid >= pg_snapshot_xmax(w.prev) AND x.xid < pg_snapshot_xmax(w.next)
       AND pg_visible_in_snapshot(x.xid, w.next) AND x.position + 0 > $4
    UNION ALL
    SELECT x.* FROM events x
     WHERE x.era = $1 AND x.xid = ANY (ARRAY (SELECT pg_snapshot_xip(w.prev)))
       AND pg_visible_in_snapshot(x.xid, w.next) AND x.position + 0 > $4
    LIMIT $6) x),
n AS MATERIALIZED (SELECT count(*) AS rows FROM c)
SELECT w.next::text, n.rows, ` + recordedColumns + `
  FROM w CROSS JOIN n LEFT JOIN LATERAL (SELECT * FROM c WHERE n.rows < $6 ORDER BY c.position LIMIT $5) e ON true
 ORDER BY e.position`

// sortedAtOnce is how many rows of a window are sorted for a page, or a page's
// worth if that is more. A window with more would be sorted again for each of its
// pages, which takes the square of its length.
const sortedAtOnce = 2000

// readSlice reads a large window by ranges of positions. Its condition is that of
// the window; in an era that is over it compares stored numbers, since that era
// has no more writers and its xids mean nothing to today's snapshots.
// Index: events_position, a few hundred rows of the heap for each range.
const readSlice = `
SELECT ` + recordedColumns + `
  FROM events e
 WHERE e.era = $1 AND e.position > $2 AND e.position <= $3
   AND NOT pg_visible_in_snapshot(e.xid, $4::pg_snapshot) AND ($5::pg_snapshot IS NULL OR pg_visible_in_snapshot(e.xid, $5::pg_snapshot))
 ORDER BY e.position LIMIT $6`

// Index: events_xid.
const firstStraggler = `
SELECT coalesce(min(e.position), 0) FROM events e
 WHERE e.era = $1 AND e.xid = ANY (ARRAY (SELECT pg_snapshot_xip($2::pg_snapshot)))
   AND ($3::pg_snapshot IS NULL OR pg_visible_in_snapshot(e.xid, $3::pg_snapshot))`

// Index: eras_pkey. The position is the last one of the era before.
const nextEra = `SELECT era, position FROM eras WHERE era > $1 ORDER BY era LIMIT 1`

// Index: none; the sequence is one row.
const lastPosition = `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_position`

// emptySnapshot sees nothing: it is before the first transaction.
const emptySnapshot = "1:1:"

// era is a history of the log; that of number 0 is none.
type era struct {
	number   int
	position int64 // the last one drawn before it
}

// Read returns up to limit events after the cursor, in commit-safe order: every
// committed event is returned by some call, none twice, and the events of a
// stream in the order of their versions. It never waits for a writer. Fewer
// events than the limit mean that the reader was at the end; the returned cursor
// is where to go on, also when there was nothing. A page costs the same however
// far from the end it is. The error is a *RetiredError if the log has let go of
// events that the cursor does not have behind it; from the zero Cursor on there is
// what is kept.
func (s *Store) Read(ctx context.Context, c Cursor, limit int) ([]Recorded, Cursor, error) {
	var out []Recorded
	for {
		page, next, end, err := s.ReadSome(ctx, c, limit-len(out))
		if err != nil {
			return nil, c, err
		}
		out, c = append(out, page...), next
		if end || len(out) >= limit {
			return out, c, nil
		}
	}
}

// ReadSome is Read for those who take what comes: it does not fill up a page from
// the next window, which would be looked at again for the rest of it. The end tells
// whether the reader is at the end of the log.
func (s *Store) ReadSome(ctx context.Context, c Cursor, limit int) (page []Recorded, next Cursor, end bool, err error) {
	for len(page) == 0 && !end {
		if c.Era == 0 {
			first, err := s.eraAfter(ctx, 0)
			if err != nil {
				return nil, c, false, err
			}
			low, err := s.LowMark(ctx)
			if err != nil {
				return nil, c, false, err
			}
			c = Cursor{Era: first.number, Prev: emptySnapshot, Low: low.Position}
		}
		later, err := s.eraAfter(ctx, c.Era)
		if err != nil {
			return nil, c, false, err
		}
		page, next, end, err = s.readPage(ctx, c, later, limit)
		if err != nil {
			return nil, c, false, fmt.Errorf("read log: %w", err)
		}
		// After the page, not before: what is there now was there for the page.
		if err := s.checkKept(ctx, c); err != nil {
			return nil, c, false, err
		}
		c = next
	}
	return page, c, end, nil
}

// readPage reads part of one window. It is done when the window was the present
// and had no more.
func (s *Store) readPage(ctx context.Context, c Cursor, later era, limit int) (page []Recorded, next Cursor, done bool, err error) {
	present, more := false, false
	switch {
	case c.NextCeiling != 0:
	case later.number != 0:
		err = s.beginSlices(ctx, &c, later.position)
	default:
		present = c.Next == ""
		page, c, err = s.readProbed(ctx, c, limit)
		more = len(page) == limit
	}
	if err != nil {
		return nil, c, false, err
	}
	if c.NextCeiling != 0 {
		if page, c, more, err = s.readSlices(ctx, c, limit); err != nil {
			return nil, c, false, err
		}
	}
	switch {
	case more: // stay inside the window
		return page, c, false, nil
	case later.number != 0 && c.Next == "": // the past era is finished
		return page, Cursor{Era: later.number, Prev: emptySnapshot, Low: c.Low}, false, nil
	}
	return page, Cursor{Era: c.Era, Prev: c.Next, PrevFloor: c.NextFloor, Low: c.Low}, present, nil
}

// readProbed reads a window that is small enough to be sorted. For another it
// returns no rows but the window's ceiling.
func (s *Store) readProbed(ctx context.Context, c Cursor, limit int) (page []Recorded, next Cursor, err error) {
	var upper *string
	if c.Next != "" {
		upper = &c.Next
	}
	b := &pgx.Batch{}
	if upper == nil {
		b.Queue(lastPosition).QueryRow(func(row pgx.Row) error { // before the snapshot is taken
			err := row.Scan(&c.NextFloor)
			c.NextFloor = max(0, c.NextFloor-drawnEarly)
			return err
		})
	}
	var rows int
	var read recordedReader
	most := max(limit+1, s.sorted)
	b.Queue(readWindow, c.Era, c.Prev, upper, c.Position, limit, most).Query(func(found pgx.Rows) error {
		return eachRow(found, func(found pgx.Rows) error {
			if found.RawValues()[2] == nil { // only the window's end came
				return found.Scan(append([]any{&c.Next, &rows}, make([]any, 12)...)...)
			}
			r, err := read.windowed(found, &c.Next, &rows)
			page = append(page, r)
			return err
		})
	})
	if err := s.loops.SendBatch(ctx, b).Close(); err != nil {
		return nil, c, err
	}
	if rows < most {
		if len(page) > 0 {
			c.Position = page[len(page)-1].Position
		}
		return page, c, nil
	}
	var last int64 // after the snapshot was taken
	if err := s.loops.QueryRow(ctx, lastPosition).Scan(&last); err != nil {
		return nil, c, err
	}
	err = s.beginSlices(ctx, &c, last)
	return nil, c, err
}

// drawnEarly allows for positions that a transaction drew before it had an xid.
// Writers lock or write something else first, so there should be none.
const drawnEarly = 1000

// beginSlices finds out where the window begins that ends at the position.
func (s *Store) beginSlices(ctx context.Context, c *Cursor, last int64) error {
	s.summarize(ctx, last)
	var upper *string
	if c.Next != "" {
		upper = &c.Next
	}
	var straggler int64
	if !strings.HasSuffix(c.Prev, ":") { // it saw transactions open
		if err := s.loops.QueryRow(ctx, firstStraggler, c.Era, c.Prev, upper).Scan(&straggler); err != nil {
			return err
		}
	}
	begin := c.PrevFloor
	if straggler != 0 {
		begin = min(begin, straggler-1)
	}
	c.Position, c.NextCeiling = max(c.Position, begin), last
	return nil
}

// summarize brings the index of positions up to the last one, unless few came
// since: readers of pages begin a window with each.
func (s *Store) summarize(ctx context.Context, last int64) {
	const few = 2000
	before := s.summarized.Load()
	if before != 0 && last-before < few {
		return
	}
	if _, err := s.loops.Exec(ctx, "SELECT daybook_summarize_events()"); err != nil {
		if ctx.Err() == nil { // slices are slow without, not wrong
			s.log.WarnContext(ctx, "index of positions is not brought up to date", "error", err)
		}
		return
	}
	s.summarized.CompareAndSwap(before, last)
}

// readSlices reads a page of a window that has a ceiling. There may be more
// unless it came to that.
func (s *Store) readSlices(ctx context.Context, c Cursor, limit int) (page []Recorded, next Cursor, more bool, err error) {
	const narrowest, widest = 1 << 12, 1 << 16 // a range of blocks, as the index has them, holds about 1,500
	var upper *string
	if c.Next != "" {
		upper = &c.Next
	}
	for span := int64(max(limit+limit/8, narrowest)); c.Position < c.NextCeiling; {
		end := min(c.Position+span, c.NextCeiling)
		want := limit - len(page)
		rows, err := s.loops.Query(ctx, readSlice, c.Era, c.Position, end, c.Prev, upper, want)
		if err != nil {
			return nil, c, false, err
		}
		found := len(page)
		var read recordedReader
		err = eachRow(rows, func(rows pgx.Rows) error {
			r, err := read.read(rows)
			page = append(page, r)
			return err
		})
		if err != nil {
			return nil, c, false, err
		}
		found = len(page) - found
		if found == want {
			c.Position = page[len(page)-1].Position
			return page, c, true, nil
		}
		c.Position = end
		if int64(found) < span/4 { // gaps, or events that are in no window of this reader
			span = min(4*span, widest)
		}
	}
	return page, c, false, nil
}

// windowed reads a row with the window's end and count before the event: those are
// the same in every row, and read in the first.
func (r *recordedReader) windowed(rows pgx.Rows, until *string, count *int) (Recorded, error) {
	if r.asked && r.begin(rows) {
		r.next()
		r.next()
		if e := r.event(); !r.odd {
			return e, nil
		}
	}
	r.begin(rows)
	return scanWindowed(rows, until, count)
}

func scanWindowed(rows pgx.Rows, until *string, count *int) (Recorded, error) {
	var r Recorded
	err := rows.Scan(until, count, &r.Category, &r.StreamID, &r.Version, &r.Position, &r.Era, &r.Type, &r.SchemaVersion, &r.At, &r.Actor, &r.Correlation, &r.Causation, &r.Data)
	r.At = r.At.UTC()
	return r, err
}

func (s *Store) eraAfter(ctx context.Context, number int) (later era, err error) {
	err = s.loops.QueryRow(ctx, nextEra, number).Scan(&later.number, &later.position)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return later, fmt.Errorf("read eras: %w", err)
	}
	return later, nil
}

// Index: eras_pkey for max(era); retired_months has a row a month.
const endOfLog = `
SELECT (SELECT max(era) FROM eras), pg_current_snapshot()::text, (SELECT coalesce(max(position), 0) FROM retired_months WHERE dropped_at IS NOT NULL)`

// End is a cursor at the end of the log: everything that is committed now is
// behind it.
func (s *Store) End(ctx context.Context) (Cursor, error) {
	c := Cursor{}
	var last int64
	b := &pgx.Batch{}
	b.Queue(lastPosition).QueryRow(func(row pgx.Row) error { return row.Scan(&last) }) // before the snapshot is taken
	b.Queue(endOfLog).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Era, &c.Prev, &c.Low) })
	if err := s.loops.SendBatch(ctx, b).Close(); err != nil {
		return c, fmt.Errorf("read end of log: %w", err)
	}
	c.PrevFloor = max(0, last-drawnEarly)
	return c, nil
}

// Index: events_position.
const eraAt = `SELECT e.era FROM events e WHERE e.position > $1 AND e.position <= $2 ORDER BY e.position LIMIT 1`

// After is a cursor from which to read what has a position above the given one,
// among what is committed now; what commits later follows whatever its position.
// The error is a *RetiredError for a position below the low mark.
func (s *Store) After(ctx context.Context, position int64) (Cursor, error) {
	if position <= 0 {
		return Cursor{}, nil
	}
	end, err := s.End(ctx)
	if err != nil {
		return end, err
	}
	if position < end.Low {
		low, err := s.LowMark(ctx)
		if err != nil {
			return end, err
		}
		return end, &RetiredError{Low: low}
	}
	var last int64
	if err := s.loops.QueryRow(ctx, lastPosition).Scan(&last); err != nil {
		return end, fmt.Errorf("find position %d: %w", position, err)
	}
	const narrowest, widest = 1 << 10, 1 << 20
	for low, span := position, int64(narrowest); low < last; low, span = low+span, min(2*span, widest) {
		c := Cursor{Prev: emptySnapshot, Position: position, Low: end.Low}
		err := s.loops.QueryRow(ctx, eraAt, low, low+span).Scan(&c.Era)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			continue
		case err != nil:
			return c, fmt.Errorf("find position %d: %w", position, err)
		case c.Era == end.Era:
			c.Next, c.NextFloor, c.NextCeiling = end.Prev, end.PrevFloor, last
		}
		return c, nil
	}
	return end, nil
}
