package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
)

// ErrRebuilding says that another process rebuilds the projection now.
var ErrRebuilding = errors.New("projection is being rebuilt elsewhere")

// Progress tells how far a rebuild is.
type Progress struct {
	Events int64 `json:"events"` // read so far
	Total  int64 `json:"total"`  // in the log, at most; it grows
}

// UnknownProjectionError names a projection that does not exist or cannot be
// rebuilt or checked.
type UnknownProjectionError struct{ Name string }

func (e *UnknownProjectionError) Error() string {
	return fmt.Sprintf("projection %q is unknown: want %s", e.Name, RunSummariesName)
}

// Rebuild makes the projection's tables anew from the log, beside the old ones,
// and puts them in their place. Followers and readers go on all the while; they
// wait only for the exchange itself, which gives up and comes again rather than
// keep them waiting behind a long query. A rebuild that is broken off leaves its
// tables, named …_next, until the next one begins. Progress is called after every page and
// may be nil.
func Rebuild(ctx context.Context, store *eventstore.Store, name string, log *slog.Logger, progress func(Progress)) error {
	if name != RunSummariesName {
		return &UnknownProjectionError{Name: name}
	}
	f := New(store, Config{Projections: []Projection{newRunSummaries(nextTable, nextName)}, Owner: "rebuild", Logger: log})
	return rebuild(ctx, f, name, progress)
}

func rebuild(ctx context.Context, f *Follower, name string, progress func(Progress)) error {
	m := f.members[0]
	held, err := f.acquire(ctx, m)
	if err != nil {
		return err
	}
	if !m.held {
		return fmt.Errorf("%s: %w (its lease ends in %s)", name, ErrRebuilding, held.Round(time.Second))
	}
	defer f.release(ctx)
	if err := f.beginRebuild(ctx, m, name); err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		if err := f.catchUp(ctx, m, progress); err != nil {
			return err
		}
		switch err := f.exchange(ctx, m, name); {
		case err == nil:
			return nil
		case errors.Is(err, errNotThere) || sqlState(err) == "55P03": // behind again, or a reader is in the way
			if tries == 100 {
				return fmt.Errorf("rebuild %s: the tables could not be exchanged: %w", name, err)
			}
			if !sleep(ctx, time.Duration(min(tries, 20))*50*time.Millisecond, nil) {
				return ctx.Err()
			}
		default:
			return err
		}
	}
}

func (f *Follower) beginRebuild(ctx context.Context, m *member, name string) error {
	m.at = checkpoint{}
	err := inTx(ctx, f.store.Pool(), pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := m.lease.save(ctx, tx, m.at); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM projection_parked WHERE projection = $1", m.Name()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT daybook_rebuild_begin($1)", name); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, beginStats)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin rebuild of %s: %w", name, err)
	}
	return nil
}

// Statistics begin with the runs that the log has let go of. No month goes while
// a rebuild has not read it. Index: none; all events of jobs are read.
const beginStats = `
INSERT INTO job_stats_next (job_id, job, succeeded, failed, cancelled, skipped, last_success_at, last_failure_at, last_success_run, last_finished_at, last_run_id)
SELECT job_id, max(job), sum(succeeded), sum(failed), sum(cancelled), sum(skipped), max(last_success_at), max(last_failure_at),
       max(last_success_run::text)::uuid, max(last_finished_at), (array_agg(last_run ORDER BY last_finished_at DESC, last_run DESC))[1]
  FROM retired_runs GROUP BY job_id`

// catchUp steps until a page was at the end of the log.
func (f *Follower) catchUp(ctx context.Context, m *member, progress func(Progress)) error {
	for {
		did, next, err := f.step(ctx, m)
		if err != nil {
			return fmt.Errorf("rebuild: %w", err)
		}
		if did && progress != nil {
			p := Progress{Events: m.count}
			if err := f.store.Pool().QueryRow(ctx, lastPosition).Scan(&p.Total); err != nil {
				return fmt.Errorf("read end of log: %w", err)
			}
			progress(p)
		}
		if next > 0 {
			return nil
		}
	}
}

// errNotThere says that the rebuilt tables are a page or more behind.
var errNotThere = errors.New("the log has moved on")

// Index: checkpoints_pkey. The new epoch turns the follower away, which then
// goes on from the new tables' place.
const (
	lockCheckpoint   = `SELECT FROM checkpoints WHERE name = $1 FOR UPDATE`
	handCheckpoint   = `UPDATE checkpoints SET cursor = $2, epoch = epoch + 1, owner = '', lease_until = '-infinity', updated_at = now() WHERE name = $1`
	dropCheckpoint   = `DELETE FROM checkpoints WHERE name = $1`
	dropParked       = `DELETE FROM projection_parked WHERE projection = $1`
	handParked       = `UPDATE projection_parked SET projection = $1 WHERE projection = $2`
	patienceForSwap  = `SET LOCAL lock_timeout = '300ms'`
	swapRebuiltTable = `SELECT daybook_rebuild_swap($1)`
)

// exchange applies what came last and puts the new tables in the old ones'
// place. The follower's checkpoint is locked first, as by the follower itself,
// so that the old tables stand still; thereby the new ones are never behind what
// a reader has already seen.
func (f *Follower) exchange(ctx context.Context, m *member, name string) error {
	if _, err := f.store.Pool().Exec(ctx, addCheckpoint, name); err != nil {
		return fmt.Errorf("add checkpoint %s: %w", name, err)
	}
	err := inTx(ctx, f.store.Pool(), pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockCheckpoint, name); err != nil {
			return err
		}
		page, after, end, err := f.read(ctx, m)
		if err != nil {
			return err
		}
		if !end {
			return errNotThere
		}
		if _, err := m.lease.save(ctx, tx, after); err != nil {
			return err
		}
		poison, err := m.Apply(ctx, tx, page)
		if err != nil {
			return err
		}
		if err := f.park(ctx, tx, m, poison); err != nil {
			return err
		}
		for _, rec := range page {
			after.Applied = max(after.Applied, rec.Position)
		}
		after.Through = m.now
		b := &pgx.Batch{}
		b.Queue(dropParked, name)
		b.Queue(handParked, name, m.Name())
		b.Queue(dropCheckpoint, m.Name())
		b.Queue(handCheckpoint, name, after)
		b.Queue(patienceForSwap)
		b.Queue(swapRebuiltTable, name)
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return fmt.Errorf("exchange tables of %s: %w", name, err)
	}
	m.held = false
	return nil
}
