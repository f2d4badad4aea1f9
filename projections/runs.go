package projections

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// RunSummaries is the projection of that name: the table run_summaries, a row a
// run, and what is counted on the way there: job_stats, queue_stats, and the
// rates and durations of lanes and jobs (see traffic.go).
type RunSummaries struct {
	name, suffix           string
	load, upsert, addStats string
	traffic                trafficSQL
}

// RunSummariesName is the checkpoint of [RunSummaries].
const RunSummariesName = "run_summaries"

// Rebuilt tables and their checkpoint carry these until they are swapped.
const (
	nextTable = "_next"
	nextName  = "/next"
)

// NewRunSummaries returns the projection.
func NewRunSummaries() *RunSummaries { return newRunSummaries("", "") }

func newRunSummaries(table, name string) *RunSummaries {
	return &RunSummaries{
		name: RunSummariesName + name, suffix: table,
		// Index: run_summaries_pkey. No lock: the checkpoint's row is locked.
		load:     "SELECT " + summaryColumns + " FROM run_summaries" + table + " WHERE run_id = ANY($1)",
		upsert:   upsertSummaries("run_summaries" + table),
		addStats: addStats("job_stats" + table),
		traffic:  newTrafficSQL(table),
	}
}

// Name implements [Projection].
func (p *RunSummaries) Name() string { return p.name }

// Apply implements [Projection].
func (p *RunSummaries) Apply(ctx context.Context, tx pgx.Tx, page []eventstore.Recorded) ([]Poison, error) {
	f := newFold()
	for _, rec := range page {
		if rec.Category == domain.CategoryRun {
			f.rows[rec.StreamID] = nil
		}
	}
	if len(f.rows) == 0 {
		return nil, nil
	}
	ids := slices.SortedFunc(maps.Keys(f.rows), compareIDs)
	if err := p.loadRows(ctx, tx, ids, f); err != nil {
		return nil, fmt.Errorf("load %s: %w", p.name, err)
	}
	for _, rec := range page {
		if rec.Category == domain.CategoryRun {
			f.add(rec)
		}
	}
	var rows summaryRows
	for _, id := range ids {
		if r := f.rows[id]; r.dirty {
			rows.add(&r.RunSummary)
			f.traffic.moved(lane{r.Queue, r.Kind}, r.was, r.State)
		}
		if len(rows.runID) == upsertRows { // a page may touch as many rows as it has events
			if _, err := tx.Exec(ctx, p.upsert, rows.columns()...); err != nil {
				return nil, fmt.Errorf("write %s: %w", p.name, err)
			}
			rows.reset()
		}
	}
	b := &pgx.Batch{}
	if len(rows.runID) > 0 {
		b.Queue(p.upsert, rows.columns()...)
	}
	f.stats.queue(b, p.addStats)
	f.traffic.queue(b, p.traffic)
	if b.Len() == 0 {
		return f.poison, nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("write %s: %w", p.name, err)
	}
	return f.poison, nil
}

// upsertRows bounds a statement's parameters.
const upsertRows = 2000

func (p *RunSummaries) loadRows(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, into *fold) error {
	b := &pgx.Batch{}
	b.Queue(statsBegin).QueryRow(func(row pgx.Row) (err error) {
		into.traffic.floors, err = scanFloors(row)
		return err
	})
	b.Queue(p.load, pgIDs(ids)).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			s, err := scanSummary(rows)
			if err != nil {
				return err
			}
			into.rows[s.RunID] = &foldedRun{RunSummary: s, was: s.State}
		}
		return rows.Err()
	})
	return tx.SendBatch(ctx, b).Close()
}

// fold is a page on its way into the rows.
type fold struct {
	rows    map[uuid.UUID]*foldedRun
	stats   statsDelta
	traffic *traffic
	poison  []Poison
}

func newFold() *fold {
	return &fold{rows: map[uuid.UUID]*foldedRun{}, traffic: newTraffic()}
}

type foldedRun struct {
	RunSummary
	was   domain.State // before the page; "" for a new one
	dirty bool
	stuck bool // an event was poison: what follows is held back
}

func (f *fold) add(rec eventstore.Recorded) {
	r := f.rows[rec.StreamID]
	if r == nil {
		r = &foldedRun{RunSummary: RunSummary{RunID: rec.StreamID}}
		f.rows[rec.StreamID] = r
	}
	if r.stuck || rec.Version <= r.Version {
		return
	}
	if err := r.next(rec, f.traffic); err != nil {
		r.stuck = true
		f.poison = append(f.poison, Poison{Event: rec, Reason: err})
		return
	}
	r.dirty = true
	if r.State.Terminal() {
		f.stats.add(&r.RunSummary)
	}
}

func (r *foldedRun) next(rec eventstore.Recorded, t *traffic) error {
	if rec.Version != r.Version+1 {
		return fmt.Errorf("version %d follows version %d", rec.Version, r.Version)
	}
	return r.applyRecorded(rec, t)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
