package soaktest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// sample is what was measured of one quantity at one time.
type sample struct {
	at    time.Duration // since the load began
	value float64
}

// bound is how much more of a quantity may be held at the end than in the
// beginning: what is not a leak, since collectors and caches breathe.
type bound struct {
	factor, more float64
}

// trend compares the last third of the samples after the warm-up with the first.
type trend struct {
	first, last float64 // medians
	perHour     float64
	flat        bool
}

func (b bound) judge(all []sample, warmUp time.Duration) (t trend, err error) {
	all = slices.DeleteFunc(slices.Clone(all), func(s sample) bool { return s.at < warmUp })
	third := len(all) / 3
	if third < 3 {
		return t, fmt.Errorf("%d samples after the warm-up are too few to compare thirds", len(all))
	}
	first, last := all[:third], all[len(all)-third:]
	t.first, t.last = median(first), median(last)
	apart := last[len(last)/2].at - first[len(first)/2].at
	t.perHour = (t.last - t.first) / apart.Hours()
	t.flat = t.last <= t.first*b.factor+b.more
	return t, nil
}

func median(s []sample) float64 {
	s = slices.SortedFunc(slices.Values(s), func(a, b sample) int { return cmp.Compare(a.value, b.value) })
	return s[len(s)/2].value
}

func TestTrend(t *testing.T) {
	series := func(value func(i int) float64) (all []sample) {
		for i := range 120 {
			all = append(all, sample{time.Duration(i) * 5 * time.Second, value(i)})
		}
		return all
	}
	memory, count := bound{1.15, 8}, bound{1, 5}
	for name, c := range map[string]struct {
		bound
		samples []sample
		flat    bool
	}{
		"a constant":                {count, series(func(int) float64 { return 40 }), true},
		"a saw":                     {memory, series(func(i int) float64 { return 60 + float64(i%10)*4 }), true},
		"warming up":                {memory, series(func(i int) float64 { return 80 - 60/float64(1+i) }), true},
		"one spike":                 {memory, series(func(i int) float64 { return map[bool]float64{true: 900, false: 60}[i == 110] }), true},
		"a leak of a tenth a third": {count, series(func(i int) float64 { return 40 + float64(i)/8 }), false},
		"a leak under a saw":        {memory, series(func(i int) float64 { return 60 + float64(i%10)*4 + float64(i)/2 }), false},
	} {
		got, err := c.judge(c.samples, time.Minute)
		if err != nil || got.flat != c.flat {
			t.Errorf("%s: %+v, %v, want flat: %v", name, got, err, c.flat)
		}
	}
	if _, err := count.judge(series(func(int) float64 { return 1 }), 599*time.Second); err == nil {
		t.Error("a comparison of nothing passed")
	}
}
