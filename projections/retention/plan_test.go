package retention

import (
	"testing"
	"time"

	"github.com/daybookhq/daybook/eventstore"
)

// A month is due when it and its newest event are older than runs are kept.
func TestJudge(t *testing.T) {
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	end := month.AddDate(0, 1, 0)
	keep := 10 * 24 * time.Hour
	late := end.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		month eventstore.LogMonth
		keep  *time.Duration
		now   time.Time
		want  State
		until time.Time
	}{
		"for ever":               {eventstore.LogMonth{}, nil, end.AddDate(100, 0, 0), Kept, time.Time{}},
		"not old enough":         {eventstore.LogMonth{}, &keep, end.Add(keep - 1), Kept, end.Add(keep)},
		"old enough":             {eventstore.LogMonth{}, &keep, end.Add(keep), Due, time.Time{}},
		"a late event":           {eventstore.LogMonth{NewestAt: &late}, &keep, end.Add(keep), Kept, late.Add(keep)},
		"a late event, long ago": {eventstore.LogMonth{NewestAt: &late}, &keep, late.Add(keep), Due, time.Time{}},
		"an early event":         {eventstore.LogMonth{NewestAt: &month}, &keep, end.Add(keep - 1), Kept, end.Add(keep)},
		"a run that goes on":     {eventstore.LogMonth{Live: true}, &keep, end.Add(keep), Blocked, time.Time{}},
	} {
		c.month.Month = month
		state, until, _ := judge(c.month, c.keep, c.now)
		if state != c.want || (until == nil) != c.until.IsZero() || until != nil && !until.Equal(c.until) {
			t.Errorf("%s: %s until %v, want %s until %s", name, state, until, c.want, c.until)
		}
	}
}
