package eventstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Command is something asked of one run. Timeouts and retry policies need not be
// filled in: they come from the version of the job that the run is pinned to.
type Command struct {
	RunID  uuid.UUID
	Do     domain.RunCommand
	Output *Output // what the attempt wrote, stored with its outcome
	Meta   Meta
}

// Output is what an attempt wrote and returned.
type Output struct {
	Head, Tail []byte
	TotalBytes int64
	Result     json.RawMessage
}

// Answer is what became of a command.
type Answer struct {
	domain.Decision
	Run  domain.Run      // after the command; of a start without its queue, of a success what names it, its attempt and its lane
	Spec *domain.JobSpec // that the run is pinned to, if the decision needed it; not to be changed
	Now  time.Time       // the transaction's
	Took time.Duration   // of the attempt that the command ended
	Err  error           // *domain.Refusal, or why this command alone could not be stored
}

// Execute decides the commands and records what they decide, all in one
// transaction. Commands on one run are decided in their order. A command that
// cannot be stored is answered with its error and takes no other down with it; a
// result that cannot be stored makes the run fail for that reason. The returned
// error is about the database as a whole: nothing is known to have happened.
func (s *Store) Execute(ctx context.Context, commands []Command) ([]Answer, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	commands = refuseResults(commands)
	var answers []Answer
	alike := alikeIn(commands)
	err := again(ctx, func() (err error) {
		if alike != nil {
			try := alike
			alike = nil // whatever it meets is decided under locks
			var done bool
			if answers, done, err = s.executeAlike(ctx, commands, try); done || err != nil {
				return err
			}
		}
		answers, err = s.execute(ctx, commands)
		return err
	})
	switch {
	case err == nil:
		return answers, nil
	case !blamesRow(err):
		return nil, err
	case len(commands) > 1:
		half := len(commands) / 2
		first, err := s.Execute(ctx, commands[:half])
		if err != nil {
			return nil, err
		}
		second, err := s.Execute(ctx, commands[half:])
		return append(first, second...), err
	}
	c := commands[0]
	if done, ok := c.Do.(domain.SucceedRun); ok && c.Output != nil {
		s.log.WarnContext(ctx, "result cannot be stored, run fails", "run_id", c.RunID, "error", err)
		return s.Execute(ctx, []Command{unstorable(c, done, err)})
	}
	return []Answer{{Err: fmt.Errorf("run %s: %w", c.RunID, err)}}, nil
}

// Index: claims_pkey.
const lockClaims = `SELECT ` + claimColumns + ` FROM claims WHERE run_id = ANY($1) ORDER BY run_id FOR UPDATE`

// Index: waiting_runs_pkey.
const lockWaiting = `SELECT ` + dueColumns + ` FROM waiting_runs WHERE run_id = ANY($1) ORDER BY run_id FOR UPDATE`

// Index: due_runs_pkey.
const lockDue = `SELECT ` + dueColumns + ` FROM due_runs WHERE run_id = ANY($1) ORDER BY run_id FOR UPDATE`

func (s *Store) execute(ctx context.Context, commands []Command) ([]Answer, error) {
	ids := make([]uuid.UUID, len(commands))
	for i, c := range commands {
		ids[i] = c.RunID
	}
	ids = distinct(ids)
	found, rows := make(map[uuid.UUID]*located, len(ids)), make([]located, 0, len(ids))
	var keys []string
	var read runReader
	lock := []query{{lockHeldKeys, []any{ids}, appendText(&keys)}, {s.sql.lockClaims, []any{ids}, func(row pgx.Rows) error {
		r, err := read.claim(row)
		rows = append(rows, located{Run: r, before: was(r), at: inClaims})
		found[r.ID] = &rows[len(rows)-1]
		return err
	}}}
	if startsOnly(commands) { // no start gives a place back
		lock = lock[1:]
	}
	tx, err := beginWith(ctx, s.ops, lock...)
	if err != nil {
		return nil, err
	}
	defer tx.rollback(ctx)
	if err := s.locateRest(ctx, tx, commands, found); err != nil {
		return nil, err
	}
	runs := make([]*located, len(commands))
	for i, c := range commands {
		runs[i] = found[c.RunID]
	}
	answers, changes, err := s.decide(ctx, tx, commands, keys, runs, nil)
	if err != nil {
		return nil, err
	}
	return answers, s.commitDecided(ctx, tx, commands, changes)
}

// commitDecided commits what was decided.
func (s *Store) commitDecided(ctx context.Context, tx *txn, commands []Command, changes *changes) error {
	points := outcomePoints
	if _, start := commands[0].Do.(domain.StartRun); start {
		points = startPoints // the two come in batches of their own
	}
	if err := crashpoint.Err(points.postDecide); err != nil {
		return err
	}
	b := &pgx.Batch{}
	if !changes.queue(b, s.sql) {
		return nil
	}
	s.pausing("execute")
	crashpoint.At(points.preCommit)
	if err := tx.commit(ctx, b); err != nil {
		return conflict(err)
	}
	return crashpoint.Err(points.postCommit)
}

var (
	startPoints   = executePoints{crashpoint.StartPostDecide, crashpoint.StartPreCommit, crashpoint.StartPostCommit}
	outcomePoints = executePoints{crashpoint.OutcomePostDecide, crashpoint.OutcomePreCommit, crashpoint.OutcomePostCommit}
)

type executePoints struct{ postDecide, preCommit, postCommit crashpoint.Point }

// table is where a run's live row was found.
type table int

const (
	nowhere table = iota // finished, or never was
	inClaims
	inDue
	inWaiting
	inParked
)

// located is a run, locked where it lies, after the commands.
type located struct {
	domain.Run
	before before
	at     table
	moved  bool // its row's change is among the changes
}

// before is what is remembered of a run from before the commands.
type before struct {
	claim   uuid.UUID
	version int
	lease   time.Time
}

func was(r domain.Run) before { return before{r.ClaimID, r.Version, r.LeaseUntil} }

// locateRest finds the runs that the claims table cannot speak for: those not in
// it, and those whose open claim is not the command's, which only the stream can
// answer.
func (s *Store) locateRest(ctx context.Context, tx *txn, commands []Command, found map[uuid.UUID]*located) error {
	var due, fold []uuid.UUID
	for _, c := range commands {
		l := found[c.RunID]
		claim, fenced := claimOf(c.Do)
		switch {
		case l == nil && !fenced:
			due = append(due, c.RunID)
		case l == nil || fenced && l.ClaimID != claim:
			fold = append(fold, c.RunID)
		}
	}
	due, fold = distinct(due), distinct(fold)
	if len(due) > 0 {
		for _, in := range []struct {
			sql string
			at  table
		}{{lockDue, inDue}, {lockWaiting, inWaiting}} {
			var read runReader
			err := tx.query(ctx, in.sql, []any{due}, func(rows pgx.Rows) error {
				r, err := read.due(rows)
				found[r.ID] = &located{Run: r, before: was(r), at: in.at}
				return err
			})
			if err != nil {
				return fmt.Errorf("look for pending runs: %w", err)
			}
		}
		due = slices.DeleteFunc(due, func(id uuid.UUID) bool { return found[id] != nil })
		fold = append(fold, due...)
	}
	if len(fold) == 0 {
		return nil
	}
	parked := map[uuid.UUID]bool{}
	if len(due) > 0 {
		err := tx.query(ctx, lockParked, []any{due}, func(rows pgx.Rows) error {
			var id uuid.UUID
			err := rows.Scan(&id)
			parked[id] = true
			return err
		})
		if err != nil {
			return fmt.Errorf("look for parked runs: %w", err)
		}
	}
	runs, err := foldRuns(ctx, tx, fold)
	if err != nil {
		return err
	}
	for _, c := range commands {
		r, folded := runs[c.RunID]
		l := found[c.RunID]
		switch {
		case !folded && l == nil:
			found[c.RunID] = &located{Run: domain.Run{ID: c.RunID}}
		case !folded:
		case l == nil && parked[c.RunID] && r.State == domain.Running:
			return fmt.Errorf("%w: its stream says running, and it is parked without a claim", errInconsistent)
		case l == nil && parked[c.RunID] && !r.State.Terminal():
			// The stream speaks for it: its row may be what it is parked for.
			found[c.RunID] = &located{Run: r, before: was(r), at: inParked}
		case l == nil:
			// The row may have moved on between the statements: into a claim of
			// this very command, or from one table to the next.
			claim, fenced := claimOf(c.Do)
			if fenced && r.InHand() && r.ClaimID == claim || !fenced && !r.State.Terminal() {
				return errLookAgain
			}
			found[c.RunID] = &located{Run: r, before: was(r), at: nowhere}
		default:
			l.Run, l.before = r, was(r)
		}
	}
	return nil
}

// claimOf is the claim that a command speaks for, if it speaks for one.
func claimOf(c domain.RunCommand) (uuid.UUID, bool) {
	switch c := c.(type) {
	case domain.StartRun:
		return c.ClaimID, true
	case domain.SucceedRun:
		return c.ClaimID, true
	case domain.FailRun:
		return c.ClaimID, true
	case domain.SnoozeRun:
		return c.ClaimID, true
	case domain.ReleaseRun:
		return c.ClaimID, true
	case domain.ScheduleRun, domain.ClaimRun, domain.ExpireRun, domain.CancelRun, domain.SkipRun:
	}
	return uuid.Nil, false
}

// decide decides the commands and gathers what they change. Each has its run at its
// own place; commands on one run share it. The order names the commands' places; nil
// is as they come, and all others are for commands on different runs.
func (s *Store) decide(ctx context.Context, tx *txn, commands []Command, keys []string, runs []*located, order []int32) ([]Answer, *changes, error) {
	pinned := make([]specKey, 0, 8)
	for i, c := range commands {
		if l := runs[i]; l.Version > 0 && needsSpec(c.Do) {
			pinned = pin(pinned, l.Run)
		}
	}
	specs, err := s.pinnedSpecs(ctx, tx, pinned)
	if err != nil {
		return nil, nil, err
	}
	answers := make([]Answer, len(commands))
	ch := &changes{now: tx.now}
	ch.grow(commands)
	var last specKey
	var spec *domain.JobSpec
	for n := range commands {
		i := n
		if order != nil {
			i = int(order[n])
		}
		c, l := &commands[i], runs[i]
		if k := (specKey{l.JobID, l.JobVersion}); k != last {
			last, spec = k, specs[k]
		}
		a := &answers[i]
		a.Spec, a.Now = spec, tx.now
		a.Decision, a.Err = domain.DecideRun(l.Run, withPolicies(c.Do, spec), tx.now)
		if a.Err == nil && !a.Repeat {
			if !l.StartedAt.IsZero() {
				a.Took = tx.now.Sub(l.StartedAt)
			}
			if err := s.apply(l, c, a.Event, ch); err != nil {
				return nil, nil, err
			}
		}
		a.Run = l.Run
	}
	for n := range runs {
		if order != nil {
			n = int(order[n])
		}
		ch.move(runs[n])
	}
	return answers, ch, ch.free(ctx, tx, keys, unfenced(commands), runs)
}

func (s *Store) apply(l *located, c *Command, e domain.RunEvent, ch *changes) error {
	at := domain.EventTime(l.ChangedAt, ch.now)
	next, err := domain.EvolveRun(l.Run, e, at)
	if err != nil {
		return err
	}
	if c.Output != nil {
		ch.outputs = append(ch.outputs, runOutput{run: l.ID, attempt: l.Attempt, Output: *c.Output})
	}
	meta := c.Meta
	if _, fenced := claimOf(c.Do); fenced && meta.Actor == "" {
		meta.Actor = ch.workerActor(cmp.Or(next.Worker, l.Worker))
	}
	l.Run = next
	return ch.events.add(l.ID, next.Version, at, s.meta(meta), e)
}

// needsSpec reports whether the decision depends on the job's definition. The
// others do without: a run whose definition is gone can still be cancelled.
func needsSpec(c domain.RunCommand) bool {
	switch c.(type) {
	case domain.StartRun, domain.FailRun, domain.ExpireRun:
		return true
	default:
		return false
	}
}

func withPolicies(c domain.RunCommand, spec *domain.JobSpec) domain.RunCommand {
	if spec == nil { // the command is for no run, or needs none
		return c
	}
	switch c := c.(type) {
	case domain.StartRun:
		c.Timeout = spec.Timeout.Std()
		return c
	case domain.FailRun:
		c.Policy = spec.Retry
		return c
	case domain.ExpireRun:
		c.Policy = spec.Retry
		return c
	default:
		return c
	}
}

func startsOnly(commands []Command) bool {
	return !slices.ContainsFunc(commands, func(c Command) bool {
		_, start := c.Do.(domain.StartRun)
		return !start
	})
}

// unfenced reports whether some command does not speak for a claim.
func unfenced(commands []Command) bool {
	return slices.ContainsFunc(commands, func(c Command) bool {
		_, fenced := claimOf(c.Do)
		_, reaped := c.Do.(domain.ExpireRun)
		return !fenced && !reaped
	})
}

func appendText(to *[]string) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var s string
		err := rows.Scan(&s)
		*to = append(*to, s)
		return err
	}
}

func distinct(ids []uuid.UUID) []uuid.UUID {
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
