package domain

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestBackoffGrowsWithinItsBounds(t *testing.T) {
	rng := seeded(t)
	for range 2000 {
		p := RetryPolicy{
			Initial: Duration(1 + rng.Int64N(int64(time.Minute))), Max: Duration(1 + rng.Int64N(int64(48*time.Hour))),
			Multiplier: 1 + 3*rng.Float64(),
		}
		var run uuid.UUID
		for i := range run {
			run[i] = byte(rng.Uint32())
		}
		attempt := 1 + rng.IntN(40)
		want := math.Min(float64(p.Initial)*math.Pow(p.Multiplier, float64(attempt-1)), float64(p.Max))
		got := p.Backoff(run, attempt)
		if low, high := 0.9*want-1000, 1.1*want+1; float64(got) < low || float64(got) > high {
			t.Fatalf("%+v attempt %d: %s, want %s ± 10 %%", p, attempt, got, time.Duration(want))
		}
		if again := p.Backoff(run, attempt); again != got {
			t.Fatalf("%+v attempt %d: %s, then %s", p, attempt, got, again)
		}
		if got%time.Microsecond != 0 {
			t.Fatalf("%s is finer than what the database keeps", got)
		}
	}
}

// TestBackoffSpreads: runs that fail together do not come back together, and the
// whole spread is used.
func TestBackoffSpreads(t *testing.T) {
	p := RetryPolicy{Initial: Duration(100 * time.Second), Max: Duration(time.Hour), Multiplier: 2}
	var waits []time.Duration
	for i := range 1000 {
		waits = append(waits, p.Backoff(SlotID(goldenJob, goldenAt.Add(time.Duration(i)*time.Second)), 1))
	}
	slices.Sort(waits)
	if lo, hi := waits[0], waits[len(waits)-1]; lo < 90*time.Second || lo > 91*time.Second || hi > 110*time.Second || hi < 109*time.Second {
		t.Errorf("waits of %s to %s, want the spread from 90 s to 110 s", lo, hi)
	}
	if mid := waits[500]; mid < 99*time.Second || mid > 101*time.Second {
		t.Errorf("median %s, want about 100 s", mid)
	}
	if n := len(slices.Compact(waits)); n < 990 {
		t.Errorf("%d different waits of 1000 runs", n)
	}
	run := SlotID(goldenJob, goldenAt)
	flat := RetryPolicy{Initial: Duration(time.Hour), Max: Duration(time.Hour), Multiplier: 1}
	if flat.Backoff(run, 1) == flat.Backoff(run, 2) {
		t.Error("two attempts of a run have the same spread")
	}
}

func TestBackoffOfExtremes(t *testing.T) {
	run := SlotID(goldenJob, goldenAt)
	const forever = Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		p         RetryPolicy
		attempt   int
		low, high time.Duration
	}{
		"many attempts are capped":         {DefaultRetry(), 1_000_000, 54 * time.Minute, 66 * time.Minute},
		"the largest attempt":              {DefaultRetry(), math.MaxInt, 54 * time.Minute, 66 * time.Minute},
		"attempt 0 is like the first":      {DefaultRetry(), 0, 9 * time.Second, 11 * time.Second},
		"a negative attempt too":           {DefaultRetry(), math.MinInt, 9 * time.Second, 11 * time.Second},
		"no first wait, many attempts":     {RetryPolicy{Initial: 0, Max: Duration(time.Hour), Multiplier: 2}, 5000, 0, 0},
		"no longest wait":                  {RetryPolicy{Initial: Duration(time.Second), Max: 0, Multiplier: 2}, 3, 0, 0},
		"negative first wait":              {RetryPolicy{Initial: -Duration(time.Second), Max: Duration(time.Hour), Multiplier: 2}, 3, 0, 0},
		"negative longest wait":            {RetryPolicy{Initial: Duration(time.Second), Max: -Duration(time.Hour), Multiplier: 2}, 3, 0, 0},
		"the longest duration":             {RetryPolicy{Initial: forever, Max: forever, Multiplier: 2}, 3, 1 << 61, math.MaxInt64},
		"an infinite multiplier":           {RetryPolicy{Initial: 1, Max: Duration(time.Hour), Multiplier: math.Inf(1)}, 2, 54 * time.Minute, 66 * time.Minute},
		"a multiplier below 1 never sinks": {RetryPolicy{Initial: Duration(time.Minute), Max: Duration(time.Hour), Multiplier: 0.5}, 9, 54 * time.Second, 66 * time.Second},
	} {
		if got := c.p.Backoff(run, c.attempt); got < c.low || got > c.high {
			t.Errorf("%s: %s, want from %s to %s", name, got, c.low, c.high)
		}
	}
}

func TestReleaseDelay(t *testing.T) {
	want := []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		64 * time.Second, 128 * time.Second, 256 * time.Second, 300 * time.Second, 300 * time.Second}
	for n, w := range want {
		if got := releaseDelay(n); got != w || wantReleaseDelay(n) != w {
			t.Errorf("after %d claims without a start: %s, want %s", n, got, w)
		}
	}
	for _, n := range []int{64, 1_000_000, math.MaxInt} {
		if got := releaseDelay(n); got != 5*time.Minute {
			t.Errorf("after %d claims: %s, want 5m", n, got)
		}
	}
}

// TestReleasesInARow drives a run through claims that nobody starts.
func TestReleasesInARow(t *testing.T) {
	r := matrixRun(t, "pending")
	now := matrixAt
	var claim byte
	apply := func(c RunCommand) RunEvent {
		t.Helper()
		d, err := DecideRun(r, c, now)
		if err != nil {
			t.Fatal(err)
		}
		if r, err = EvolveRun(r, d.Event, now); err != nil {
			t.Fatal(err)
		}
		return d.Event
	}
	take := func() {
		t.Helper()
		claim++
		if r.ReadyAt.After(now) {
			now = r.ReadyAt
		}
		apply(ClaimRun{ClaimID: uuid.UUID{15: claim}, Lease: time.Minute})
	}
	lapse := func(excused bool) time.Duration {
		t.Helper()
		take()
		now = now.Add(time.Minute)
		return apply(ExpireRun{Policy: matrixPolicy, Excused: excused}).(RunReleased).ReadyAt.Sub(now)
	}
	expect := func(what string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: put off by %s, want %s", what, got, want)
		}
	}
	expect("first release", lapse(false), 0)
	expect("second", lapse(false), 0)
	expect("third", lapse(false), time.Second)
	expect("fourth", lapse(false), 2*time.Second)
	expect("fifth, its stream was lost", lapse(true), 0)
	expect("sixth", lapse(false), 8*time.Second)
	take()
	expect("seventh, given back by its worker", apply(ReleaseRun{ClaimID: r.ClaimID}).(RunReleased).ReadyAt.Sub(now), 16*time.Second)
	take()
	expect("eighth, refused by the broker", apply(ReleaseRun{ClaimID: r.ClaimID, Undeliverable: true}).(RunReleased).ReadyAt.Sub(now), 32*time.Second)
	if r.Dispatches != 8 || r.Attempt != 0 {
		t.Errorf("%d claims in a row, %d attempts, want 8 and 0", r.Dispatches, r.Attempt)
	}
	take()
	apply(StartRun{ClaimID: r.ClaimID, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}})
	apply(ReleaseRun{ClaimID: r.ClaimID, Reason: "drained"})
	if r.Dispatches != 0 || r.Attempt != 0 {
		t.Errorf("after a start and a drain: %d claims in a row, %d attempts, want none", r.Dispatches, r.Attempt)
	}
	expect("first after a start", lapse(false), 0)
	expect("second after a start", lapse(false), 0)
	expect("third after a start", lapse(false), time.Second)
	if r.State != Pending || r.Attempt != 0 {
		t.Errorf("releases left the run %s with %d attempts", r.State, r.Attempt)
	}
}
