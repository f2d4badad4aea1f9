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

// RunSummaries is the projection of that name: the tables run_summaries and
// job_stats.
type RunSummaries struct {
	name                   string
	load, upsert, addStats string
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
		name: RunSummariesName + name,
		// Index: run_summaries_pkey. No lock: the checkpoint's row is locked.
		load:     "SELECT " + summaryColumns + " FROM run_summaries" + table + " WHERE run_id = ANY($1)",
		upsert:   upsertSummaries("run_summaries" + table),
		addStats: addStats("job_stats" + table),
	}
}

// Name implements [Projection].
func (p *RunSummaries) Name() string { return p.name }

// Apply implements [Projection].
func (p *RunSummaries) Apply(ctx context.Context, tx pgx.Tx, page []eventstore.Recorded) ([]Poison, error) {
	f := fold{rows: make(map[uuid.UUID]*foldedRun)}
	for _, rec := range page {
		if rec.Category == domain.CategoryRun {
			f.rows[rec.StreamID] = nil
		}
	}
	if len(f.rows) == 0 {
		return nil, nil
	}
	ids := slices.SortedFunc(maps.Keys(f.rows), compareIDs)
	if err := p.loadRows(ctx, tx, ids, f.rows); err != nil {
		return nil, err
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
		}
	}
	b := &pgx.Batch{}
	if len(rows.runID) > 0 {
		b.Queue(p.upsert, rows.columns()...)
	}
	f.stats.queue(b, p.addStats)
	if b.Len() == 0 {
		return f.poison, nil
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("write %s: %w", p.name, err)
	}
	return f.poison, nil
}

func (p *RunSummaries) loadRows(ctx context.Context, tx pgx.Tx, ids []uuid.UUID, into map[uuid.UUID]*foldedRun) error {
	found, err := tx.Query(ctx, p.load, pgIDs(ids))
	if err != nil {
		return fmt.Errorf("load %s: %w", p.name, err)
	}
	_, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (struct{}, error) {
		s, err := scanSummary(row)
		into[s.RunID] = &foldedRun{RunSummary: s}
		return struct{}{}, err
	})
	if err != nil {
		return fmt.Errorf("load %s: %w", p.name, err)
	}
	return nil
}

// fold is a page on its way into the rows.
type fold struct {
	rows   map[uuid.UUID]*foldedRun
	stats  statsDelta
	poison []Poison
}

type foldedRun struct {
	RunSummary
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
	err := r.next(rec)
	if err != nil {
		r.stuck = true
		f.poison = append(f.poison, Poison{Event: rec, Reason: err})
		return
	}
	r.dirty = true
	if r.State.Terminal() {
		f.stats.add(&r.RunSummary)
	}
}

func (r *foldedRun) next(rec eventstore.Recorded) error {
	if rec.Version != r.Version+1 {
		return fmt.Errorf("version %d follows version %d", rec.Version, r.Version)
	}
	return r.applyRecorded(rec)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
