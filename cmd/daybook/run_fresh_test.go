package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

// followed is a list that has an event after so long, or never.
type followed struct {
	client.Runs
	asked time.Time // when the event was written
	after time.Duration
	owner string
	calls int
}

func (l *followed) ListRuns(context.Context, projections.RunFilter) (projections.RunPage, error) {
	l.calls++
	var p projections.RunPage
	p.Lag.Owner = l.owner
	if age := time.Since(l.asked); age < l.after {
		p.Lag.Events, p.Lag.Behind = 1, domain.Duration(age)
	} else {
		p.Runs = []projections.RunSummary{{}}
	}
	return p, nil
}

func TestListKnowsWhatWasDoneBefore(t *testing.T) {
	for name, test := range map[string]struct {
		list  followed
		runs  int
		least time.Duration
		most  time.Duration
	}{
		"soon":              {followed{after: 400 * time.Millisecond, owner: "engine-1"}, 1, 300 * time.Millisecond, 500 * time.Millisecond},
		"never":             {followed{after: time.Hour, owner: "engine-1"}, 0, freshPatience, freshPatience + time.Second},
		"nobody follows":    {followed{after: time.Hour}, 0, 0, 0},
		"it has it at once": {followed{owner: "engine-1"}, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.list.asked = time.Now()
				time.Sleep(10 * time.Millisecond) // the event is older than the question
				began := time.Now()
				page, err := freshRuns(t.Context(), &test.list, projections.RunFilter{})
				if took := time.Since(began); err != nil || len(page.Runs) != test.runs || took < test.least || took > test.most {
					t.Errorf("%d runs after %s, %v", len(page.Runs), took, err)
				}
			})
		})
	}
}
