package projections

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestRatesAndDurationsOfLanesAndJobs(t *testing.T) {
	w := newWorld(t)
	at := time.Now().UTC().Truncate(24 * time.Hour).Add(-3 * time.Hour)
	for i := range 10 {
		w.life(t, "report", at.Add(time.Duration(i)*time.Minute), 3*time.Millisecond, time.Duration(i+1)*100*time.Millisecond)
	}
	w.life(t, "other", at, time.Second, 90*time.Second)
	w.follow(t)
	r := NewReader(w.Store)

	got, err := r.Rates(t.Context(), StatsFilter{Queue: "mail", From: at, To: at.Add(9*time.Minute + time.Second), Step: 5 * time.Minute})
	if err != nil || len(got.Rates) != 2 || !got.Rates[0].At.Equal(at) || got.Rates[0].Scheduled != 6 || got.Rates[0].Succeeded != 6 || got.Rates[1].Started != 5 || got.Total.Succeeded != 11 {
		t.Errorf("rates of the queue: %+v, %v", got, err)
	}
	got, err = r.Rates(t.Context(), StatsFilter{Job: "other", From: at, To: at.Add(time.Hour)})
	if err != nil || len(got.Rates) != 2 || got.Rates[1].Succeeded != 1 || got.Total.Started != 1 || got.Step != domain.Duration(time.Minute) {
		t.Errorf("rates of the job: %+v, %v", got, err)
	}
	got, err = r.Rates(t.Context(), StatsFilter{Job: "other", From: at.Add(-100 * 24 * time.Hour), To: at.Add(time.Hour), Step: time.Hour})
	if err != nil || time.Since(got.From) > JobMinutesKept || got.Total.Started != 1 {
		t.Errorf("rates from before what is kept: %+v, %v", got, err)
	}

	for _, f := range []StatsFilter{{Job: "report", From: at, To: at.Add(time.Hour)}, {Kind: "send", From: at, To: at.Add(time.Hour)}} {
		d, err := r.Durations(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		runs, p99 := int64(11), 131072*time.Millisecond // one of 90 s among them
		if f.Job != "" {
			runs, p99 = 10, 1024*time.Millisecond
		}
		if d.Run.Count != runs || d.Wait.Count != runs {
			t.Errorf("%+v: %d ran, %d waited, want %d", f, d.Run.Count, d.Wait.Count, runs)
		}
		if e := d.Run.P99Estimate; e == nil || e.AtMost.Std() != p99 || e.Above.Std() != p99/2 {
			t.Errorf("%+v: p99 %+v, want at most %s", f, e, p99)
		}
		if e := d.Run.P50Estimate; e == nil || e.Above.Std() != 256*time.Millisecond && e.Above.Std() != 512*time.Millisecond {
			t.Errorf("%+v: p50 %+v", f, e)
		}
		if e := d.Wait.P50Estimate; e == nil || e.AtMost.Std() != 4*time.Millisecond {
			t.Errorf("%+v: p50 of the waits %+v", f, e)
		}
	}
}

func TestQuestionsForRatesThatMakeNoSense(t *testing.T) {
	r := NewReader(newWorld(t).Store)
	now := time.Now()
	for field, f := range map[string]StatsFilter{
		"job":  {Job: "a", Queue: "q"},
		"to":   {From: now, To: now.Add(-time.Hour)},
		"step": {From: now.Add(-48 * time.Hour), To: now},
	} {
		_, err := r.Rates(t.Context(), f)
		if bad, ok := errors.AsType[*FilterError](err); !ok || bad.Field != field {
			t.Errorf("%+v: %v, want something of %s", f, err, field)
		}
	}
	if _, err := r.Rates(t.Context(), StatsFilter{Step: 90 * time.Second}); err == nil {
		t.Error("a step of a minute and a half")
	}
	if got, err := r.Rates(t.Context(), StatsFilter{}); err != nil || got.To.Sub(got.From) < time.Hour || got.Rates == nil {
		t.Errorf("the last hour: %+v, %v", got, err)
	}
}

// A bucket that what is kept begins in is not whole, wherever in it the question
// begins.
func TestStatisticsBeginWithAWholeBucket(t *testing.T) {
	w := newWorld(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	w.exec(t, `INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by, dropped_at)
		VALUES ('2000-01-01', 'x', 'f', 'd', 'h', 1, 1, 1, $1, 0, 1, '1', 1, pg_current_snapshot(), 'test', now())`, today.Add(-12*time.Hour))
	for _, from := range []time.Duration{-48 * time.Hour, -13 * time.Hour, -12 * time.Hour, -6 * time.Hour} {
		d, err := NewReader(w.Store).Durations(t.Context(), StatsFilter{Job: "report", From: today.Add(from), To: today.Add(24 * time.Hour)})
		if err != nil || !d.From.Equal(today) {
			t.Errorf("asked from %s on: the day of %s, %v, want that of %s", today.Add(from), d.From, err, today)
		}
	}
}

func TestDepthsNameTheOldestAndLanesWithoutWorkers(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 3)
	w.follow(t)
	r := NewReader(w.Store)
	got, err := r.Depths(t.Context())
	if err != nil || len(got) != 1 || got[0].Pending != 3 || !got[0].NoWorkers || got[0].OldestReadyAt == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	var oldest time.Time
	if err := w.admin.QueryRow(t.Context(), "SELECT min(ready_at) FROM due_runs").Scan(&oldest); err != nil || !oldest.Equal(*got[0].OldestReadyAt) {
		t.Errorf("the oldest is of %s, want %s, %v", got[0].OldestReadyAt, oldest, err)
	}
	err = w.SeeWorker(t.Context(), eventstore.Worker{ID: "w", Lanes: []eventstore.WorkerLane{{Queue: "default", Kind: "noop"}}, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, err = r.Depths(t.Context()); err != nil || got[0].NoWorkers {
		t.Errorf("with a worker: %+v, %v", got, err)
	}
}
