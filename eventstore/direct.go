package eventstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Direct lets runs that are ready when they are made be claimed by the transaction
// that makes them, without a due row in between: where their lane has room, and no
// run waits in it that is due already. Whatever else a claim decides, places and
// what becomes of a run that finds none, is decided as a claim does. The other
// runs become due rows.
type Direct struct {
	// Room says how many runs of a lane may be claimed now, and how. It is asked
	// once a lane and attempt; false leaves the lane's runs to a claim.
	Room   func(queue, kind string) (ClaimRequest, bool)
	Outbox Outbox

	Claimed  []LaneClaimed // what was claimed, once it is committed
	Replaced []uuid.UUID   // and runs to cancel: a later instant waits for their place
}

// LaneClaimed is what was claimed directly of one lane.
type LaneClaimed struct {
	Lane *Lane
	Claimed
}

// direct is one transaction's use of Direct. It may be nil.
type direct struct {
	*Direct
	now       time.Time
	lanes     []*directLane
	placed    placement
	apart     map[uuid.UUID]bool // runs that get no due row, or one that placed writes
	committed func()
}

func (d *Direct) begin(now time.Time) *direct {
	if d == nil {
		return nil
	}
	return &direct{Direct: d, now: now}
}

type directLane struct {
	queue, kind string
	ClaimRequest
	has     bool // room
	waiting bool // somebody is due before
	runs    []domain.Run
}

// lane is where a run that is ready then could be claimed, nil if nowhere.
func (d *direct) lane(queue, kind string, ready time.Time) *directLane {
	if d == nil || ready.After(d.now) {
		return nil
	}
	i := slices.IndexFunc(d.lanes, func(l *directLane) bool { return l.queue == queue && l.kind == kind })
	if i < 0 {
		l := &directLane{queue: queue, kind: kind}
		l.ClaimRequest, l.has = d.Room(queue, kind)
		i = len(d.lanes)
		d.lanes = append(d.lanes, l)
	}
	if l := d.lanes[i]; l.has && !l.waiting {
		return l
	}
	return nil
}

// A row that is locked waits, too: for all that is known its claim rolls back.
//
// Index: due_runs_lane, one row a lane and level.
const selectWaitingLanes = `
SELECT l.i FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS l(queue, kind, low, i)
 WHERE EXISTS (SELECT FROM unnest($4::smallint[]) AS p(level),
                      LATERAL (SELECT FROM due_runs d
                                WHERE d.queue = l.queue AND d.kind = l.kind AND d.priority = p.level AND d.ready_at BETWEEN l.low AND now()
                                LIMIT 1) r)`

// ask adds the question who waits in the lanes that were looked at.
func (d *direct) ask(first ...query) []query {
	if d == nil {
		return first
	}
	var asked []*directLane
	var queues, kinds []string
	var lows []time.Time
	for _, l := range d.lanes {
		if l.has {
			asked, queues, kinds, lows = append(asked, l), append(queues, l.queue), append(kinds, l.kind), append(lows, l.Lane.low())
		}
	}
	if len(asked) == 0 {
		return first
	}
	return append(first, query{selectWaitingLanes, []any{queues, kinds, lows, allLevels}, func(rows pgx.Rows) error {
		var i int64
		err := rows.Scan(&i)
		if err == nil {
			asked[i-1].waiting = true
		}
		return err
	}})
}

// low is from where the lane is looked at for runs that are due already.
func (l *Lane) low() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := slices.MinFunc(l.seen[:], time.Time.Compare)
	if oldest.IsZero() {
		return time.Unix(0, 0)
	}
	return oldest.Add(-lookBriefly)
}

// Pressed reports whether the last claim left runs behind: there is nothing to be
// claimed before them.
func (l *Lane) Pressed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pressed
}

// pick decides which of the transaction's runs it claims, in a lane those of the
// first level before the others. Afterwards waits tells which still need a due row.
func (d *direct) pick(ctx context.Context, s *Store, tx *txn, runs []domain.Run) error {
	if d == nil {
		return nil
	}
	for _, r := range runs {
		if l := d.lane(r.Queue, r.Kind, r.ReadyAt); l != nil {
			l.runs = append(l.runs, r)
		}
	}
	var picked []domain.Run
	for _, l := range d.lanes {
		slices.SortStableFunc(l.runs, func(a, b domain.Run) int {
			return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.ScheduledAt.Compare(b.ScheduledAt))
		})
		picked = append(picked, l.runs[:min(len(l.runs), l.Limit)]...)
	}
	if len(picked) == 0 {
		return nil
	}
	var err error
	if d.placed, err = s.place(ctx, tx, picked); err != nil {
		return err
	}
	d.apart = make(map[uuid.UUID]bool, len(picked))
	for _, r := range picked {
		d.apart[r.ID] = true
	}
	return nil
}

// waits reports whether the run needs a due row.
func (d *direct) waits(run uuid.UUID) bool { return d == nil || !d.apart[run] }

// queue adds what was picked to the batch. The events that made the runs stand
// among the events already.
func (d *direct) queue(ctx context.Context, s *Store, tx *txn, b *pgx.Batch, events *eventRows) error {
	if d == nil || len(d.apart) == 0 {
		return nil
	}
	var rows liveRows
	var sent []Message
	for _, l := range d.lanes {
		if len(l.runs) == 0 {
			continue
		}
		l.runs = slices.DeleteFunc(slices.Clone(d.placed.claim), func(r domain.Run) bool { return r.Queue != l.queue || r.Kind != l.kind })
		if err := s.takeInHand(l.runs, l.Lease, d.now, &rows, events); err != nil {
			return err
		}
		sent = append(sent, messages(l.ClaimRequest, l.runs)...)
	}
	rows.queueClaims(b)
	if err := d.placed.queue(ctx, s, tx, b, events); err != nil {
		return err
	}
	var err error
	if d.committed, err = d.Outbox.Enqueue(b, d.now, sent); err != nil {
		return fmt.Errorf("write dispatches: %w", err)
	}
	crashpoint.At(crashpoint.DirectPreCommit)
	return nil
}

// held are the queues of runs that could not be decided, and are due again soon.
func (d *direct) held() []string {
	if d == nil {
		return nil
	}
	return d.placed.held.queue.distinct
}

// done hands the dispatches over, after the commit.
func (d *direct) done() error {
	if d == nil || d.committed == nil {
		return nil
	}
	if err := crashpoint.Err(crashpoint.DirectPostCommit); err != nil {
		return err
	}
	d.committed()
	for _, l := range d.lanes {
		if len(l.runs) > 0 {
			d.Claimed = append(d.Claimed, LaneClaimed{l.Lane, Claimed{Runs: l.runs, Now: d.now}})
		}
	}
	d.Replaced = append(d.Replaced, d.placed.replace...)
	return nil
}
