package eventstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Hint tells a worker what it may start. It carries no arguments: those come
// with the reply to the start, which charges the attempt.
type Hint struct {
	RunID      uuid.UUID
	ClaimID    uuid.UUID
	LeaseUntil time.Time
}

// Message is one dispatch to a lane: the hints that travel and are acknowledged
// together.
type Message struct {
	Queue, Kind string
	Generation  int // of the broker's stream; above 0 the claim was dispatched before
	Hints       []Hint
}

// Outbox writes the messages of a transaction into it. Whatever committed does
// happens after the commit; if it is never called, the outbox row says what was
// left to do.
type Outbox interface {
	Enqueue(b *pgx.Batch, now time.Time, messages []Message) (committed func(), err error)
}

// Lane is one queue and kind, as a claimer sees it. Not safe for concurrent use
// of the same value by several claims; replicas need nothing from one another.
type Lane struct {
	Queue, Kind string

	mu      sync.Mutex
	seen    [domain.Priorities]time.Time // up to where all has been taken, but for what came late
	full    time.Time                    // when every level was last looked at from its beginning
	wide    time.Time                    // and when from lookBack before seen
	batches int
	last    int  // runs of the last batch
	pressed bool // it was full: there may be more than is taken
}

// NewLane makes a lane that begins with a full scan.
func NewLane(queue, kind string) *Lane { return &Lane{Queue: queue, Kind: kind} }

// Claims look at a level from a little before the place where the last one ended,
// so that the dead index entries of runs that are gone are not walked again and
// again while some open snapshot keeps them: minutes of a report are millions of
// them. Behind that lie runs whose writer took long to commit, which a look from
// lookBack finds, and writers that would commit a run behind that roll back instead;
// and rows that another transaction held and gave back, which the full scan finds.
const (
	lookBack      = 10 * time.Second
	fullScanEvery = 30 * time.Second
	wideEvery     = time.Second
	lookBriefly   = 2 * time.Second        // at a lane that was emptied
	lookInBacklog = 250 * time.Millisecond // where a claim passes over the entries of seconds
	fairEvery     = 10                     // of full batches every so many begin with the level that has the oldest run
	lookAfter     = 64                     // batches from this size on do not look for the next run, too
)

var allLevels = func() (all []int16) {
	for i := range int16(domain.Priorities) {
		all = append(all, i)
	}
	return all
}()

// ClaimRequest asks for runs of a lane.
type ClaimRequest struct {
	Lane   *Lane
	Limit  int
	Lease  time.Duration      // dispatch lease
	Parcel func(runs int) int // hints a message at most, of so many runs claimed; nil means 1
}

// Claimed is what a claim took.
type Claimed struct {
	Runs []domain.Run
	Now  time.Time
	// Full says that the limit was reached: there may be more.
	Full bool
	// Until is how long until the next run of the lane comes due, zero if one is
	// and was not taken, negative if none is waiting. Runs that others make
	// meanwhile are not in it, nor those that have been due for longer than
	// the claim looked back. After a batch of many nobody has looked.
	Until  time.Duration
	Looked bool

	Waiting  int         // due runs that were set aside for a place
	Skipped  int         // due runs that were decided against
	Replaced []uuid.UUID // runs to cancel: a later instant waits for their place
}

// Level by level until the batch is full. Equality on the priority keeps each
// scan inside its level's due part of the index. Which rows are taken is in
// order, oldest first within a level; the order they come back in is not.
//
// A row that changes between the scan and its lock is skipped, not lost: a batch
// that is not full does not prove that nothing is due.
//
// Index: due_runs_lane; the DELETE goes by ctid.
const takeDue = `
DELETE FROM due_runs WHERE ctid = ANY (ARRAY (
  SELECT r.ctid
    FROM unnest($3::smallint[], $4::timestamptz[]) WITH ORDINALITY AS p(level, low, rank),
         LATERAL (SELECT d.ctid FROM due_runs d
                   WHERE d.queue = $1 AND d.kind = $2 AND d.priority = p.level AND d.ready_at BETWEEN p.low AND now()
                   ORDER BY d.ready_at FOR UPDATE SKIP LOCKED LIMIT $5) r
   LIMIT $5))
RETURNING ` + dueColumns

// From where claims look, or it would walk over what they no longer do.
//
// Index: due_runs_lane, one row a level.
const oldestLevel = `
SELECT p.level FROM unnest($3::smallint[], $4::timestamptz[]) AS p(level, low),
       LATERAL (SELECT d.ready_at FROM due_runs d
                 WHERE d.queue = $1 AND d.kind = $2 AND d.priority = p.level AND d.ready_at BETWEEN p.low AND now()
                 ORDER BY d.ready_at LIMIT 1) r
 ORDER BY r.ready_at LIMIT 1`

// Claim takes due runs of a lane in hand: due rows go, claim rows and RunClaimed
// come, and the outbox gets their dispatch, in one transaction. A claimer never
// waits for another: what is locked is skipped. A run that cannot be claimed is
// parked after the others went through; see Parked.
func (s *Store) Claim(ctx context.Context, q ClaimRequest, out Outbox) (Claimed, error) {
	q.Lane.mu.Lock()
	defer q.Lane.mu.Unlock()
	for {
		var c Claimed
		err := again(ctx, func() (err error) {
			c, err = s.claim(ctx, q, out)
			return err
		})
		switch {
		case err == nil || !blamesRow(err):
			return c, err
		case q.Limit > 1:
			q.Limit = (q.Limit + 1) / 2
		case len(c.Runs) == 1:
			return Claimed{}, s.park(ctx, c.Runs[0].ID, err)
		default:
			return Claimed{}, err
		}
	}
}

// claim returns the runs that it took also with an error: one of them is to
// blame, if any is.
func (s *Store) claim(ctx context.Context, q ClaimRequest, out Outbox) (Claimed, error) {
	lane := q.Lane
	levels, lows, back := lane.order(ctx, s)
	var taken []domain.Run
	var read runReader
	until := time.Duration(-1)
	first := []query{{takeDue, []any{lane.Queue, lane.Kind, levels, lows, q.Limit}, func(rows pgx.Rows) error {
		r, err := read.due(rows)
		taken = append(taken, r)
		return err
	}}}
	// It walks over what was just taken.
	looked := lane.last < lookAfter
	if looked {
		first = append(first, query{soonestDue, []any{lane.Queue, lane.Kind, allLevels, back}, func(rows pgx.Rows) error {
			var d *time.Duration
			err := rows.Scan(&d)
			if d != nil {
				until = max(*d, 0)
			}
			return err
		}})
	}
	tx, err := beginWith(ctx, s.loops, first...)
	if err != nil {
		return Claimed{}, err
	}
	defer tx.rollback(ctx)
	if len(taken) == 0 {
		lane.advance(tx.now, nil, false)
		return Claimed{Now: tx.now, Looked: looked, Until: until}, nil
	}
	if err := crashpoint.Err(crashpoint.ClaimPostSelect); err != nil {
		return Claimed{}, err
	}
	failed := Claimed{Runs: taken}
	placed, err := s.place(ctx, tx, taken)
	if err != nil {
		return failed, err
	}
	full := len(taken) == q.Limit
	seen := taken
	taken = placed.claim
	var rows liveRows
	var events eventRows
	rows.grow(len(taken))
	events.grow(len(taken))
	if err := s.takeInHand(taken, q.Lease, tx.now, &rows, &events); err != nil {
		return failed, err
	}
	b := &pgx.Batch{}
	rows.queueClaims(b)
	if err := placed.queue(ctx, s, tx, b, &events); err != nil {
		return failed, err
	}
	events.queue(b)
	committed, err := out.Enqueue(b, tx.now, messages(q, taken))
	if err != nil {
		return failed, fmt.Errorf("write dispatches: %w", err)
	}
	s.pausing("claim")
	crashpoint.At(crashpoint.ClaimPreCommit)
	if err := tx.commit(ctx, b); err != nil {
		return failed, conflict(err)
	}
	if err := crashpoint.Err(crashpoint.ClaimPostCommit); err != nil {
		return failed, err
	}
	committed()
	lane.advance(tx.now, seen, full)
	if len(placed.held.ids) > 0 && (until < 0 || until > keyHeld) {
		until = keyHeld
	}
	return Claimed{Runs: taken, Now: tx.now, Full: full, Looked: looked, Until: until, Waiting: len(placed.waitFor), Skipped: len(placed.skipped), Replaced: placed.replace}, nil
}

// takeInHand claims the runs, in place.
func (s *Store) takeInHand(runs []domain.Run, lease time.Duration, now time.Time, rows *liveRows, events *eventRows) error {
	for i, r := range runs {
		d, err := domain.DecideRun(r, domain.ClaimRun{ClaimID: uuid.New(), Lease: lease}, now)
		if err != nil {
			return fmt.Errorf("claim run %s: %w", r.ID, err)
		}
		at := domain.EventTime(r.ChangedAt, now)
		if runs[i], err = domain.EvolveRun(r, d.Event, at); err != nil {
			return err
		}
		rows.add(runs[i])
		if err := events.add(r.ID, runs[i].Version, at, s.meta(Meta{}), d.Event); err != nil {
			return err
		}
	}
	return nil
}

func messages(q ClaimRequest, runs []domain.Run) []Message {
	parcel := 1
	if q.Parcel != nil {
		parcel = max(q.Parcel(len(runs)), 1)
	}
	out := make([]Message, 0, (len(runs)+parcel-1)/parcel)
	hints := make([]Hint, len(runs))
	for i, r := range runs {
		hints[i] = Hint{RunID: r.ID, ClaimID: r.ClaimID, LeaseUntil: r.LeaseUntil}
	}
	for len(hints) > 0 {
		n := min(parcel, len(hints))
		out = append(out, Message{Queue: q.Lane.Queue, Kind: q.Lane.Kind, Hints: hints[:n:n]})
		hints = hints[n:]
	}
	return out
}

// order gives the levels in the order to look at them, where to begin, and how
// far back that is.
func (l *Lane) order(ctx context.Context, s *Store) ([]int16, []time.Time, time.Duration) {
	now := time.Now()
	if now.Sub(l.full) > fullScanEvery {
		l.seen, l.full, l.wide = [domain.Priorities]time.Time{}, now, now
	}
	back := lookBriefly
	switch {
	case now.Sub(l.wide) > wideEvery:
		back, l.wide = lookBack, now
	case l.pressed:
		back = lookInBacklog
	}
	levels, lows := slices.Clone(allLevels), make([]time.Time, len(allLevels))
	for i, seen := range l.seen {
		lows[i] = time.Unix(0, 0)
		if !seen.IsZero() {
			lows[i] = seen.Add(-back)
		}
	}
	l.batches++
	if l.pressed && l.batches%fairEvery == 0 {
		var oldest int16
		err := s.loops.QueryRow(ctx, oldestLevel, l.Queue, l.Kind, levels, lows).Scan(&oldest)
		if err == nil {
			low := lows[oldest]
			copy(levels[1:oldest+1], levels[:oldest])
			copy(lows[1:oldest+1], lows[:oldest])
			levels[0], lows[0] = oldest, low
		} else if !errors.Is(err, pgx.ErrNoRows) {
			s.log.DebugContext(ctx, "oldest level not found, going by priority", "queue", l.Queue, "kind", l.Kind, "error", err)
		}
	}
	return levels, lows, back
}

// advance notes what the batch has seen: everything due if it was not full, else up
// to its newest run of each level.
func (l *Lane) advance(now time.Time, taken []domain.Run, full bool) {
	l.last, l.pressed = len(taken), full
	for i := range l.seen {
		if l.seen[i].After(now) { // the database's clock stepped back
			l.full = time.Time{}
		}
		if !full {
			l.seen[i] = now
		}
	}
	if !full {
		return
	}
	var newest [domain.Priorities]time.Time
	for _, r := range taken {
		if r.ReadyAt.After(newest[r.Priority]) {
			newest[r.Priority] = r.ReadyAt
		}
	}
	for i, t := range newest {
		if t.After(l.seen[i]) {
			l.seen[i] = t
		}
	}
}

// Index: due_runs_lane, one row a level.
const soonestDue = `
SELECT min(r.ready_at) - now() FROM unnest($3::smallint[]) AS p(level),
       LATERAL (SELECT d.ready_at FROM due_runs d
                 WHERE d.queue = $1 AND d.kind = $2 AND d.priority = p.level AND d.ready_at >= now() - $4::interval
                 ORDER BY d.ready_at LIMIT 1) r`
