package retention

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// State says where a month of runs is.
type State string

// The states of a month.
const (
	Kept    State = "kept"    // not old enough
	Due     State = "due"     // may go
	Blocked State = "blocked" // is old enough, and something must not go
	Retired State = "retired" // the log has let go of it
)

// Month is a month of runs, in the log or no longer.
type Month struct {
	Month    string                   `json:"month"` // of the runs' instants in UTC
	State    State                    `json:"state"`
	Why      string                   `json:"why,omitempty"`
	Until    *time.Time               `json:"until,omitempty"` // kept until then at least
	Events   int64                    `json:"events"`          // about, while it is in the log
	Bytes    int64                    `json:"bytes"`           // in the log, else of the file
	NewestAt *time.Time               `json:"newest_at,omitempty"`
	Export   *eventstore.RetiredMonth `json:"export,omitempty"` // the last one

	month time.Time
}

// Plan is what is kept and for how long, and what a pass would do now.
type Plan struct {
	KeepRuns    *domain.Duration   `json:"keep_runs"`    // null: for ever
	KeepOutputs *domain.Duration   `json:"keep_outputs"` // null: as long as the runs
	LowMark     eventstore.LowMark `json:"low_mark"`
	Months      []Month            `json:"months"`
}

// Plan tells what a pass would do now, and changes nothing.
func (k *Keeper) Plan(ctx context.Context) (Plan, error) { return PlanOf(ctx, k.store) }

// PlanOf tells what a pass would do now, and changes nothing.
func PlanOf(ctx context.Context, store *eventstore.Store) (p Plan, err error) {
	spans, err := store.Spans(ctx)
	if err != nil {
		return p, err
	}
	p.KeepRuns, p.KeepOutputs = (*domain.Duration)(spans.Runs), (*domain.Duration)(spans.Outputs)
	if p.LowMark, err = store.LowMark(ctx); err != nil {
		return p, err
	}
	exports, err := store.RetiredMonths(ctx)
	if err != nil {
		return p, err
	}
	last := map[string]eventstore.RetiredMonth{}
	for _, x := range exports {
		if x.DroppedAt == nil {
			last[x.Name()] = x
			continue
		}
		p.Months = append(p.Months, Month{Month: x.Name(), State: Retired, Events: x.Events, Bytes: x.Bytes, NewestAt: &x.NewestAt, Export: &x, month: x.Month})
	}
	now, err := store.Now(ctx)
	if err != nil {
		return p, err
	}
	there, err := store.LogMonths(ctx)
	if err != nil {
		return p, err
	}
	for _, l := range there {
		m := Month{Month: l.Name(), Events: l.Events, Bytes: l.Bytes, NewestAt: l.NewestAt, month: l.Month}
		if x, ok := last[m.Month]; ok {
			m.Export = &x
		}
		m.State, m.Until, m.Why = judge(l, spans.Runs, now)
		p.Months = append(p.Months, m)
	}
	slices.SortStableFunc(p.Months, func(a, b Month) int { return a.month.Compare(b.month) })
	return p, nil
}

func judge(l eventstore.LogMonth, keep *time.Duration, now time.Time) (State, *time.Time, string) {
	if keep == nil {
		return Kept, nil, "runs are kept for ever"
	}
	until := l.Month.AddDate(0, 1, 0).Add(*keep)
	if l.NewestAt != nil && l.NewestAt.Add(*keep).After(until) {
		until = l.NewestAt.Add(*keep).UTC()
	}
	switch {
	case until.After(now):
		return Kept, &until, ""
	case l.Live:
		return Blocked, nil, "a run of it is not finished"
	}
	return Due, nil, ""
}

// String is for logs.
func (m Month) String() string { return fmt.Sprintf("%s %s", m.Month, m.State) }
