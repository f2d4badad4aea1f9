package projections

import (
	"strings"
	"testing"
)

// A page that touches more rows than a statement takes writes all of them, and
// each with what is its own.
func TestPageOfManyRows(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	const runs = 2*upsertRows + 7
	w.request(t, "report", runs)
	for range 3 {
		for _, r := range w.claim(t, 500) {
			w.execute(t, start(r))
		}
	}
	f := w.follower(Config{Limit: 10 * runs})
	settle(t, f)
	if n := w.count(t, "SELECT count(*) FROM run_summaries"); n != runs {
		t.Errorf("%d rows for %d runs", n, runs)
	}
	if strings.Contains(w.log.String(), "in parts") {
		t.Errorf("the database refused rows:\n%s", w.log)
	}
	if r := w.checked(t); r.Streams != runs || r.Drifted > 0 {
		t.Errorf("%d of %d streams checked, drift %v", r.Streams, runs, r.Drift)
	}
}
