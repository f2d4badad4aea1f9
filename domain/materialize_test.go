package domain

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain/schedule"
)

// instants are listed ones.
type instants []time.Time

func (s instants) Next(after time.Time) (schedule.Fire, bool) {
	i := sort.Search(len(s), func(i int) bool { return s[i].After(after) })
	if i == len(s) {
		return schedule.Fire{}, false
	}
	return schedule.Fire{At: s[i]}, true
}

func (s instants) Prev(before time.Time) (schedule.Fire, bool) {
	i := sort.Search(len(s), func(i int) bool { return !s[i].Before(before) })
	if i == 0 {
		return schedule.Fire{}, false
	}
	return schedule.Fire{At: s[i-1]}, true
}

func (s instants) Count(after, until time.Time) int { return len(s.between(after, until)) }

// between lists the instants in (after, until].
func (s instants) between(after, until time.Time) []time.Time {
	var out []time.Time
	for _, at := range s {
		if at.After(after) && !at.After(until) {
			out = append(out, at)
		}
	}
	return out
}

// verdict is the decision on one instant: a run, or a skip and its reason.
type verdict struct {
	at      time.Time
	skipped string
	catchUp bool
}

// naive decides every instant of (watermark, now] by reading the rules.
func naive(spec JobSpec, all instants, watermark, now time.Time) []verdict {
	due := all.between(watermark, now)
	verdicts := make([]verdict, len(due))
	var missed, young []int
	for i, at := range due {
		verdicts[i].at = at
		if now.Sub(at) < time.Minute {
			young = append(young, i)
		} else {
			missed = append(missed, i)
		}
	}
	inWindow := func(i int) bool {
		return spec.CatchupWindow == 0 || now.Sub(due[i]) <= spec.CatchupWindow.Std()
	}
	keep, reason := []int(nil), SkipMisfire
	switch spec.Misfire {
	case MisfireLatest:
		if len(young) == 0 && len(missed) > 0 {
			if last := missed[len(missed)-1]; inWindow(last) {
				keep = []int{last}
			} else {
				reason = SkipCatchupWindow
			}
		}
	case MisfireAll:
		for _, i := range missed {
			if inWindow(i) {
				keep = append(keep, i)
			}
		}
		reason = SkipCatchupWindow
		if n := spec.MaxCatchup; n > 0 && len(missed) > n && len(keep) >= n {
			keep, reason = keep[len(keep)-n:], SkipMaxCatchup
		}
	}
	for _, i := range missed {
		verdicts[i].skipped = reason
	}
	for _, i := range keep {
		verdicts[i].skipped, verdicts[i].catchUp = "", true
	}
	return verdicts
}

// planAll takes passes of the limit until everything up to now is decided.
func planAll(t *testing.T, spec JobSpec, all instants, watermark, now time.Time, limit int) []verdict {
	t.Helper()
	var verdicts []verdict
	for pass := 0; ; pass++ {
		p := PlanFires(spec, all, watermark, now, limit)
		if s := p.Skipped; s != nil {
			covered := all.between(s.From.Add(-1), s.To)
			if len(covered) != s.Count || len(covered) == 0 || !covered[0].Equal(s.From) || !covered[s.Count-1].Equal(s.To) {
				t.Fatalf("pass %d: %+v covers %v", pass, *s, covered)
			}
			for _, at := range covered {
				verdicts = append(verdicts, verdict{at: at, skipped: s.Reason})
			}
		}
		for _, f := range p.Fires {
			verdicts = append(verdicts, verdict{at: f.At, catchUp: f.CatchUp})
		}
		if len(p.Fires) > limit {
			t.Fatalf("pass %d: %d runs, limit %d", pass, len(p.Fires), limit)
		}
		if next, ok := all.Next(p.Through); ok != !p.Next.IsZero() || ok && !p.Next.Equal(next.At) {
			t.Fatalf("pass %d: through %s, next %s, want %v", pass, p.Through, p.Next, next.At)
		}
		if p.Through.Equal(now) {
			return verdicts
		}
		if p.Through.After(now) || !p.Through.After(watermark) || len(p.Fires) != limit {
			t.Fatalf("pass %d from %s to %s: stopped at %s with %d runs of %d", pass, watermark, now, p.Through, len(p.Fires), limit)
		}
		watermark = p.Through
	}
}

// TestPlanFiresAgainstANaiveModel draws instants, gaps and policies; whatever
// the limit of a pass is, the decisions are those of the rules.
func TestPlanFiresAgainstANaiveModel(t *testing.T) {
	rng := seeded(t)
	reasons := map[string]int{}
	for range 6000 {
		now := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC)
		watermark := now.Add(-[]time.Duration{0, time.Second, 59 * time.Second, time.Minute, time.Minute + 1000, time.Hour, 26 * time.Hour}[rng.IntN(7)])
		spec := JobSpec{
			Misfire:       []Misfire{MisfireLatest, MisfireSkip, MisfireAll}[rng.IntN(3)],
			CatchupWindow: Duration([]time.Duration{0, time.Second, time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour}[rng.IntN(6)]),
			MaxCatchup:    []int{0, 1, 2, 5, 100}[rng.IntN(5)],
		}
		all := drawInstants(rng, now)
		want := naive(spec, all, watermark, now)
		got := planAll(t, spec, all, watermark, now, 1+rng.IntN(8))
		if !slices.Equal(got, want) {
			t.Fatalf("%s, window %s, at most %d, from %s to %s: decided\n%v\nwant\n%v", spec.Misfire, spec.CatchupWindow, spec.MaxCatchup, watermark, now, got, want)
		}
		if whole := planAll(t, spec, all, watermark, now, 1_000_000); !slices.Equal(got, whole) {
			t.Fatalf("several passes decided\n%v\none pass\n%v", got, whole)
		}
		for _, v := range want {
			reasons[v.skipped]++
		}
	}
	for _, reason := range []string{"", SkipMisfire, SkipCatchupWindow, SkipMaxCatchup} {
		if reasons[reason] < 200 {
			t.Errorf("%d instants decided with reason %q", reasons[reason], reason)
		}
	}
}

// drawInstants lists instants around now, with many where the rules have edges.
func drawInstants(rng *rand.Rand, now time.Time) instants {
	edges := []time.Duration{0, time.Second, 59 * time.Second, time.Minute - 1000, time.Minute, time.Minute + 1000, 10 * time.Minute, time.Hour, 24 * time.Hour, 26 * time.Hour, -time.Second, -time.Hour}
	var all instants
	for range rng.IntN(25) {
		d := edges[rng.IntN(len(edges))]
		if rng.IntN(2) == 0 {
			d += time.Duration(rng.IntN(200)-100) * time.Second
		}
		all = append(all, now.Add(-d))
	}
	slices.SortFunc(all, time.Time.Compare)
	return slices.Compact(all)
}

func TestPlanFires(t *testing.T) {
	const grace = time.Minute
	set := func(exprs ...string) *schedule.Set {
		s, err := schedule.ParseSet(exprs, schedule.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	hourly, minutely := set("0 * * * *"), set("* * * * *")
	now := time.Date(2026, 3, 8, 12, 0, 30, 0, time.UTC)
	for name, c := range map[string]struct {
		spec    JobSpec
		set     *schedule.Set
		gap     time.Duration
		limit   int
		fires   int
		first   time.Duration // before now
		skipped int
		reason  string
		through time.Duration // before now
		next    time.Duration // after now
	}{
		"on time":                      {JobSpec{Misfire: MisfireSkip}, hourly, grace, 10, 1, 30 * time.Second, 0, "", 0, 59*time.Minute + 30*time.Second},
		"nothing due":                  {JobSpec{Misfire: MisfireAll}, hourly, 10 * time.Second, 10, 0, 0, 0, "", 0, 59*time.Minute + 30*time.Second},
		"latest beside a younger one":  {JobSpec{Misfire: MisfireLatest}, hourly, 5 * time.Hour, 10, 1, 30 * time.Second, 4, SkipMisfire, 0, 59*time.Minute + 30*time.Second},
		"skip beside a younger one":    {JobSpec{Misfire: MisfireSkip}, hourly, 5 * time.Hour, 10, 1, 30 * time.Second, 4, SkipMisfire, 0, 59*time.Minute + 30*time.Second},
		"all":                          {JobSpec{Misfire: MisfireAll}, hourly, 5 * time.Hour, 10, 5, 4*time.Hour + 30*time.Second, 0, "", 0, 59*time.Minute + 30*time.Second},
		"all, more than a pass takes":  {JobSpec{Misfire: MisfireAll}, hourly, 5 * time.Hour, 2, 2, 4*time.Hour + 30*time.Second, 0, "", 3*time.Hour + 30*time.Second, -2*time.Hour - 30*time.Second},
		"all, within max_catchup":      {JobSpec{Misfire: MisfireAll, MaxCatchup: 2}, hourly, 5 * time.Hour, 10, 3, 2*time.Hour + 30*time.Second, 2, SkipMaxCatchup, 0, 59*time.Minute + 30*time.Second},
		"all, within the window":       {JobSpec{Misfire: MisfireAll, CatchupWindow: Duration(90 * time.Minute)}, hourly, 5 * time.Hour, 10, 2, time.Hour + 30*time.Second, 3, SkipCatchupWindow, 0, 59*time.Minute + 30*time.Second},
		"all, at the window's edge":    {JobSpec{Misfire: MisfireAll, CatchupWindow: Duration(2*time.Hour + 30*time.Second)}, hourly, 5 * time.Hour, 10, 3, 2*time.Hour + 30*time.Second, 2, SkipCatchupWindow, 0, 59*time.Minute + 30*time.Second},
		"a window below the grace":     {JobSpec{Misfire: MisfireAll, CatchupWindow: 1}, minutely, 5 * time.Minute, 10, 1, 30 * time.Second, 4, SkipCatchupWindow, 0, 30 * time.Second},
		"every minute, the young runs": {JobSpec{Misfire: MisfireSkip}, minutely, time.Hour, 10, 1, 30 * time.Second, 59, SkipMisfire, 0, 30 * time.Second},
	} {
		watermark := now.Add(-c.gap)
		p := PlanFires(c.spec, c.set, watermark, now, c.limit)
		if len(p.Fires) != c.fires || c.fires > 0 && !p.Fires[0].At.Equal(now.Add(-c.first)) {
			t.Errorf("%s: runs %v, want %d from %s", name, p.Fires, c.fires, now.Add(-c.first))
		}
		if c.skipped == 0 && p.Skipped != nil || c.skipped > 0 && (p.Skipped == nil || p.Skipped.Count != c.skipped || p.Skipped.Reason != c.reason) {
			t.Errorf("%s: skipped %+v, want %d for %s", name, p.Skipped, c.skipped, c.reason)
		}
		if !p.Through.Equal(now.Add(-c.through)) || !p.Next.Equal(now.Add(c.next)) {
			t.Errorf("%s: through %s, next %s, want %s and %s", name, p.Through, p.Next, now.Add(-c.through), now.Add(c.next))
		}
	}
	// One minute late is missed; the newest missed instant runs where it is alone.
	late := now.Add(30 * time.Second)
	p := PlanFires(JobSpec{Misfire: MisfireLatest}, hourly, late.Add(-5*time.Hour), late, 10)
	if len(p.Fires) != 1 || !p.Fires[0].CatchUp || !p.Fires[0].At.Equal(late.Add(-time.Minute)) || p.Skipped == nil || p.Skipped.Count != 4 {
		t.Errorf("latest alone: %+v", p)
	}
	p = PlanFires(JobSpec{Misfire: MisfireSkip}, hourly, late.Add(-5*time.Hour), late, 10)
	if len(p.Fires) != 0 || p.Skipped == nil || p.Skipped.Count != 5 || !p.Through.Equal(late) {
		t.Errorf("skip: %+v", p)
	}
	// A clock that stepped back decides nothing and takes nothing back.
	p = PlanFires(JobSpec{Misfire: MisfireAll}, hourly, now, now.Add(-3*time.Hour), 10)
	if len(p.Fires) != 0 || p.Skipped != nil || !p.Through.Equal(now) || !p.Next.Equal(now.Add(59*time.Minute+30*time.Second)) {
		t.Errorf("a clock behind the watermark: %+v", p)
	}
	ended, err := schedule.ParseSet([]string{"0 * * * *"}, schedule.Options{End: now.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if p = PlanFires(JobSpec{Misfire: MisfireAll}, ended, now.Add(-3*time.Hour), now, 10); len(p.Fires) != 2 || !p.Next.IsZero() {
		t.Errorf("a schedule that has ended: %+v", p)
	}
}

// counted counts what is asked of a set.
type counted struct {
	*schedule.Set
	asked int
}

func (c *counted) Next(at time.Time) (schedule.Fire, bool) { c.asked++; return c.Set.Next(at) }
func (c *counted) Prev(at time.Time) (schedule.Fire, bool) { c.asked++; return c.Set.Prev(at) }
func (c *counted) Count(a, b time.Time) int                { c.asked++; return c.Set.Count(a, b) }

// TestPlanFiresIsBounded: after 30 days of absence of a job that runs every
// second, a pass asks for little more than what it makes.
func TestPlanFiresIsBounded(t *testing.T) {
	set, err := schedule.ParseSet([]string{"@every 1s"}, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const month, limit = 30 * 24 * time.Hour, 100
	now := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
	young := 60 // seconds of the last minute
	for name, c := range map[string]struct {
		spec    JobSpec
		skipped int
	}{
		"latest":             {JobSpec{Misfire: MisfireLatest, CatchupWindow: DefaultCatchupWindow, MaxCatchup: DefaultMaxCatchup}, 30*86400 - young},
		"skip":               {JobSpec{Misfire: MisfireSkip}, 30*86400 - young},
		"all":                {JobSpec{Misfire: MisfireAll, CatchupWindow: DefaultCatchupWindow, MaxCatchup: DefaultMaxCatchup}, 30*86400 - young - DefaultMaxCatchup},
		"all of a day":       {JobSpec{Misfire: MisfireAll, CatchupWindow: DefaultCatchupWindow}, 29*86400 - 1},
		"all without bounds": {JobSpec{Misfire: MisfireAll}, 0},
	} {
		asked := &counted{Set: set}
		watermark, total := now.Add(-month), 0
		for pass := range 5 {
			asked.asked = 0
			p := PlanFires(c.spec, asked, watermark, now, limit)
			if p.Skipped != nil {
				total += p.Skipped.Count
			}
			if budget := limit + c.spec.MaxCatchup + 10; asked.asked > budget {
				t.Errorf("%s: pass %d asked %d times for %d runs, want at most %d", name, pass, asked.asked, len(p.Fires), budget)
			}
			watermark = p.Through
		}
		if total != c.skipped {
			t.Errorf("%s: %d skipped, want %d", name, total, c.skipped)
		}
	}
}
