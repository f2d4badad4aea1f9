package domain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestPlaces(t *testing.T) {
	job := goldenJob.String()
	spec := func(o Overlap, c *Concurrency, args string) JobSpec {
		return JobSpec{Overlap: o, Concurrency: c, Args: json.RawMessage(args)}
	}
	overlap := func(o Overlap) Place { return Place{Key: "overlap:" + job, Capacity: 1, Overlap: o} }
	limit := func(rest string, n int) Place { return Place{Key: "limit:" + job + rest, Capacity: n} }
	long := `"` + strings.Repeat("x", 100) + `"`
	for name, c := range map[string]struct {
		spec   JobSpec
		origin Origin
		args   string
		want   []Place
	}{
		"scheduled, skip":            {spec(OverlapSkip, nil, ""), OriginSchedule, "", []Place{overlap(OverlapSkip)}},
		"scheduled, queue":           {spec(OverlapQueue, nil, ""), OriginSchedule, "", []Place{overlap(OverlapQueue)}},
		"scheduled, allow":           {spec(OverlapAllow, nil, ""), OriginSchedule, "", nil},
		"requested":                  {spec(OverlapSkip, nil, ""), OriginRequest, "", nil},
		"backfilled":                 {spec(OverlapSkip, nil, ""), OriginBackfill, "", nil},
		"run again":                  {spec(OverlapSkip, nil, ""), OriginRetry, "", nil},
		"limit of the job":           {spec(OverlapAllow, &Concurrency{Limit: 3}, ""), OriginRequest, "", []Place{limit("", 3)}},
		"both, the overlap first":    {spec(OverlapSkip, &Concurrency{Limit: 3}, ""), OriginSchedule, "", []Place{overlap(OverlapSkip), limit("", 3)}},
		"limit by the job's args":    {spec(OverlapAllow, &Concurrency{Key: "tenant", Limit: 1}, `{"tenant": "acme"}`), OriginSchedule, "", []Place{limit(`:"acme"`, 1)}},
		"limit by the run's args":    {spec(OverlapAllow, &Concurrency{Key: "tenant", Limit: 1}, `{"tenant": "acme"}`), OriginRequest, `{"tenant": 7}`, []Place{limit(":7", 1)}},
		"numbers are one value":      {spec(OverlapAllow, &Concurrency{Key: "tenant", Limit: 1}, ""), OriginRequest, `{"tenant": 7e0}`, []Place{limit(":7", 1)}},
		"objects are one value":      {spec(OverlapAllow, &Concurrency{Key: "k", Limit: 1}, ""), OriginRequest, `{"k": {"b": 1, "a": 2}}`, []Place{limit(`:{"a":2,"b":1}`, 1)}},
		"a missing argument":         {spec(OverlapAllow, &Concurrency{Key: "tenant", Limit: 1}, ""), OriginRequest, `{}`, []Place{limit(":", 1)}},
		"arguments of another shape": {spec(OverlapAllow, &Concurrency{Key: "tenant", Limit: 1}, ""), OriginRequest, `[1]`, []Place{limit(":", 1)}},
	} {
		got := c.spec.Places(Run{JobID: goldenJob, Origin: c.origin, Args: json.RawMessage(c.args)})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for _, p := range got {
			if UntilTerminal(p.Key) != (p.Overlap != "") {
				t.Errorf("%s: %s is kept until the end: %v", name, p.Key, UntilTerminal(p.Key))
			}
		}
	}
	hashed := spec(OverlapAllow, &Concurrency{Key: "k", Limit: 1}, `{"k":`+long+`}`).Places(Run{JobID: goldenJob})[0].Key
	other := spec(OverlapAllow, &Concurrency{Key: "k", Limit: 1}, `{"k":`+strings.Replace(long, "x", "y", 1)+`}`).Places(Run{JobID: goldenJob})[0].Key
	if hashed == other || len(hashed) > 100 || !strings.Contains(hashed, "sha256-") {
		t.Errorf("long values: %s and %s", hashed, other)
	}
}

func TestDecidePlaces(t *testing.T) {
	me, first, second := SlotID(goldenJob, goldenAt), SlotID(goldenJob, goldenAt.Add(-time.Hour)), SlotID(goldenJob, goldenAt.Add(-time.Minute))
	held := func(waiting int, by ...uuid.UUID) Occupancy { return Occupancy{Holders: by, Waiting: waiting} }
	overlap := func(o Overlap) Place { return Place{Key: "o", Capacity: 1, Overlap: o} }
	limit := Place{Key: "l", Capacity: 2}
	fresh := Run{ID: me}
	waited := Run{ID: me, WaitingSince: goldenAt}
	catchUp := Run{ID: me, CatchUp: true}
	skip := func(reason string) PlaceVerdict {
		return PlaceVerdict{Skip: &RunSkipped{Reason: reason, BlockedBy: &first}}
	}
	take := func(keys ...string) PlaceVerdict { return PlaceVerdict{Take: keys} }
	for name, c := range map[string]struct {
		run    Run
		places []Place
		taken  map[string]Occupancy
		want   PlaceVerdict
	}{
		"nothing needed":                              {fresh, nil, nil, PlaceVerdict{}},
		"free":                                        {fresh, []Place{overlap(OverlapSkip), limit}, nil, take("o", "l")},
		"its own, from an earlier claim":              {fresh, []Place{overlap(OverlapSkip), limit}, map[string]Occupancy{"o": held(0, me)}, take("l")},
		"one place of two is free":                    {fresh, []Place{limit}, map[string]Occupancy{"l": held(0, first)}, take("l")},
		"both are taken":                              {fresh, []Place{limit}, map[string]Occupancy{"l": held(0, first, second)}, PlaceVerdict{Wait: "l"}},
		"free, but others wait":                       {fresh, []Place{limit}, map[string]Occupancy{"l": held(1, first)}, PlaceVerdict{Wait: "l"}},
		"free, and it has waited":                     {waited, []Place{limit}, map[string]Occupancy{"l": held(1, first)}, take("l")},
		"taken, and it has waited":                    {waited, []Place{limit}, map[string]Occupancy{"l": held(1, first, second)}, PlaceVerdict{Wait: "l"}},
		"skip":                                        {fresh, []Place{overlap(OverlapSkip)}, map[string]Occupancy{"o": held(0, first)}, skip(SkippedOverlap)},
		"skip, a run that caught up waits":            {catchUp, []Place{overlap(OverlapSkip)}, map[string]Occupancy{"o": held(3, first)}, PlaceVerdict{Wait: "o"}},
		"skip, nobody holds it but one waits for it":  {fresh, []Place{overlap(OverlapSkip)}, map[string]Occupancy{"o": held(1)}, PlaceVerdict{Wait: "o"}},
		"skip, a run that has waited waits on":        {waited, []Place{overlap(OverlapSkip)}, map[string]Occupancy{"o": held(0, first)}, PlaceVerdict{Wait: "o"}},
		"queue, the first waits":                      {fresh, []Place{overlap(OverlapQueue)}, map[string]Occupancy{"o": held(0, first)}, PlaceVerdict{Wait: "o"}},
		"queue, the second does not":                  {fresh, []Place{overlap(OverlapQueue)}, map[string]Occupancy{"o": held(1, first)}, skip(SkippedQueue)},
		"queue, the one that waits":                   {waited, []Place{overlap(OverlapQueue)}, map[string]Occupancy{"o": held(0, first)}, PlaceVerdict{Wait: "o"}},
		"replace":                                     {fresh, []Place{overlap(OverlapReplace)}, map[string]Occupancy{"o": held(0, first)}, PlaceVerdict{Wait: "o", Replace: first}},
		"replace, asked again":                        {waited, []Place{overlap(OverlapReplace)}, map[string]Occupancy{"o": held(0, first)}, PlaceVerdict{Wait: "o", Replace: first}},
		"replace, a run that caught up replaces none": {catchUp, []Place{overlap(OverlapReplace)}, map[string]Occupancy{"o": held(0, first)}, PlaceVerdict{Wait: "o"}},
		"the overlap is free, the limit is not":       {fresh, []Place{overlap(OverlapSkip), limit}, map[string]Occupancy{"l": held(0, first, second)}, PlaceVerdict{Wait: "l"}},
		"the limit is free, the overlap is not":       {fresh, []Place{overlap(OverlapSkip), limit}, map[string]Occupancy{"o": held(0, first)}, skip(SkippedOverlap)},
	} {
		if got := DecidePlaces(c.run, c.places, c.taken); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestJitterDelay(t *testing.T) {
	var delays []time.Duration
	for i := range 1000 {
		job := JobID(fmt.Sprint(i))
		d := JitterDelay(job, 10*time.Minute, time.Hour)
		if d < 0 || d >= 10*time.Minute || d%time.Microsecond != 0 || d != JitterDelay(job, 10*time.Minute, time.Hour) {
			t.Fatalf("%s", d)
		}
		if gap := JitterDelay(job, 10*time.Minute, time.Second); gap < 0 || gap >= time.Second {
			t.Fatalf("%s of a gap of 1 s", gap)
		}
		delays = append(delays, d)
	}
	slices.Sort(delays)
	if delays[0] > time.Minute || delays[500] < 4*time.Minute || delays[500] > 6*time.Minute || delays[999] < 9*time.Minute {
		t.Errorf("the delays of 1000 jobs spread from %s over %s to %s", delays[0], delays[500], delays[999])
	}
	for _, jitter := range []time.Duration{0, -time.Second} {
		if d := JitterDelay(goldenJob, jitter, time.Hour); d != 0 {
			t.Errorf("a jitter of %s: %s", jitter, d)
		}
	}
	if d := JitterDelay(goldenJob, time.Minute, 0); d != JitterDelay(goldenJob, time.Minute, time.Hour) {
		t.Errorf("without a next instant: %s", d)
	}
}

func TestCompareWaiting(t *testing.T) {
	at := func(since, ready int) Run {
		r := Run{ReadyAt: goldenAt.Add(time.Duration(ready) * time.Second)}
		if since > 0 {
			r.WaitingSince = goldenAt.Add(time.Duration(since) * time.Second)
		}
		return r
	}
	want := []Run{at(1, 9), at(2, 3), at(2, 5), at(9, 1), at(0, 1), at(0, 2), at(0, 7)}
	rng := seeded(t)
	for range 100 {
		got := slices.Clone(want)
		rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		slices.SortFunc(got, CompareWaiting)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v", got)
		}
	}
	if CompareWaiting(want[0], want[0]) != 0 {
		t.Error("a run does not equal itself")
	}
}
