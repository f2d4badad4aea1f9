package projections

import (
	"testing"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// backlog writes the whole lives of n runs.
func (w *world) backlog(b *testing.B, n int) {
	b.Helper()
	for n > 0 {
		batch := min(n, 500)
		n -= batch
		w.request(b, "report", batch)
		runs := w.claim(b, batch)
		starts, ends := make([]eventstore.Command, len(runs)), make([]eventstore.Command, len(runs))
		for i, r := range runs {
			starts[i], ends[i] = start(r), succeed(r)
		}
		w.execute(b, starts...)
		w.execute(b, ends...)
	}
}

// What a tick brings at 30,000 events a second: runs that began and ended since
// the last one.
func BenchmarkFollow(b *testing.B) {
	w := newWorld(b)
	w.apply(b, spec("report"))
	f := w.follower(Config{})
	settle(b, f)
	b.ReportAllocs()
	var events int64
	for b.Loop() {
		b.StopTimer()
		w.backlog(b, 3750)
		before := f.members[0].count
		b.StartTimer()
		settle(b, f)
		events += f.members[0].count - before
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// Runs whose events come in pages of their own: each page updates rows.
func BenchmarkFollowSlowRuns(b *testing.B) {
	w := newWorld(b)
	w.apply(b, spec("report"))
	f := w.follower(Config{})
	settle(b, f)
	var events int64
	follow := func() {
		before := f.members[0].count
		b.StartTimer()
		settle(b, f)
		b.StopTimer()
		events += f.members[0].count - before
	}
	for b.Loop() {
		b.StopTimer()
		w.request(b, "report", 2000)
		follow()
		runs := w.claim(b, 2000)
		follow()
		var starts, ends []eventstore.Command
		for _, r := range runs {
			starts, ends = append(starts, start(r)), append(ends, succeed(r))
		}
		w.execute(b, starts...)
		follow()
		w.execute(b, ends...)
		follow()
		b.StartTimer()
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkRebuild(b *testing.B) {
	w := newWorld(b)
	w.apply(b, spec("report"))
	w.backlog(b, 10_000)
	var events int64
	for b.Loop() {
		err := Rebuild(b.Context(), w.Store, RunSummariesName, nil, func(p Progress) { events = p.Events })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkListOfAJobsFailures(b *testing.B) {
	w := newWorld(b)
	w.seed(b, 200_000, domain.Succeeded, domain.Succeeded, domain.Succeeded, domain.Failed)
	reader := NewReader(w.Store)
	for b.Loop() {
		if _, err := reader.ListRuns(b.Context(), RunFilter{Job: "job-1", States: []domain.State{domain.Failed}}); err != nil {
			b.Fatal(err)
		}
	}
}
