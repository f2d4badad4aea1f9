package projections

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// backlog writes the whole lives of n runs.
func (w *world) backlog(b *testing.B, job string, n int) {
	b.Helper()
	for n > 0 {
		batch := min(n, 500)
		n -= batch
		w.request(b, job, batch)
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
		w.backlog(b, "report", 3750)
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
	w.backlog(b, "report", 10_000)
	var events int64
	for b.Loop() {
		err := Rebuild(b.Context(), w.Store, RunSummariesName, nil, func(p Progress) { events = p.Events })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// A follower that comes late, from the log as engines write it: 20 jobs, half a
// million events. Far behind it reads stream by stream, otherwise in the log's
// order, in which it stays up.
func BenchmarkCatchUp(b *testing.B) {
	w := newWorld(b)
	for job := range 20 {
		w.apply(b, spec(fmt.Sprintf("report-%d", job)))
	}
	w.follow(b)
	for i := range 260 {
		w.backlog(b, fmt.Sprintf("report-%d", i%20), 500)
	}
	w.exec(b, "VACUUM ANALYZE events")
	for _, scans := range []bool{true, false} {
		b.Run(map[bool]string{true: "streams", false: "order"}[scans], func(b *testing.B) {
			var events int64
			for b.Loop() {
				b.StopTimer()
				w.exec(b, "TRUNCATE "+strings.Join(w.lines(b, "SELECT unnest(daybook_projection_tables('run_summaries'))"), ", "))
				w.exec(b, "DELETE FROM checkpoints")
				f := w.follower(Config{})
				if !scans { // from the beginning, and yet not to be scanned
					w.exec(b, `INSERT INTO checkpoints (name, cursor, updated_at) VALUES ($1, '{"era": 1, "prev": "1:1:"}', now())`, RunSummariesName)
					f.farBehind = func(int64, int64, int) bool { return false }
				}
				b.StartTimer()
				settle(b, f)
				b.StopTimer()
				events += f.members[0].count
				f.release(b.Context())
				b.StartTimer()
			}
			if events < int64(b.N)*500_000 {
				b.Errorf("%d events", events)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
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
