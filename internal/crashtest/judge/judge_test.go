package judge

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

var dawn = time.Date(2026, 5, 1, 6, 0, 0, 0, time.UTC)

func clock(seconds float64) time.Time {
	return dawn.Add(time.Duration(seconds * float64(time.Second)))
}

// past builds a history event by event.
type past struct {
	History
	t        *testing.T
	versions map[uuid.UUID]int
	position int64
}

func (p *past) add(stream uuid.UUID, at time.Time, e domain.Event) {
	p.t.Helper()
	data, err := domain.EncodeEvent(e)
	if err != nil {
		p.t.Fatal(err)
	}
	p.versions[stream]++
	p.position += 10
	p.Events = append(p.Events, eventstore.Recorded{Category: domain.CategoryOf(e), StreamID: stream, Version: p.versions[stream],
		Position: p.position, Era: 1, Type: e.EventType(), SchemaVersion: domain.SchemaVersion, At: at, Data: data})
}

func (p *past) job(name string, every time.Duration, edit func(*Job)) Job {
	j := Job{ID: domain.JobID(name), Name: name, Anchor: dawn.Add(-time.Minute), Every: every, MaxAttempts: 3, Overlap: domain.OverlapAllow,
		Created: Window{clock(0), clock(0.5)}, Paused: Window{clock(20), clock(20.5)}}
	edit(&j)
	p.Jobs = append(p.Jobs, j)
	p.add(j.ID, clock(0.2), domain.JobCreated{Spec: domain.JobSpec{Name: name}})
	return j
}

func (p *past) scheduled(j Job, s float64) uuid.UUID {
	id := domain.SlotID(j.ID, clock(s))
	p.add(id, clock(s+0.01), domain.RunScheduled{JobID: j.ID, Job: j.Name, JobVersion: 1, Origin: domain.OriginSchedule, ScheduledAt: clock(s), ReadyAt: clock(s), Queue: "default", Kind: "exec"})
	p.Slots = append(p.Slots, Slot{j.ID, clock(s), id})
	return id
}

func (p *past) claimed(id uuid.UUID, s float64, dispatch int) uuid.UUID {
	claim := uuid.New()
	p.add(id, clock(s), domain.RunClaimed{ClaimID: claim, LeaseUntil: clock(s + 8), Dispatch: dispatch})
	return claim
}

func (p *past) started(id, claim uuid.UUID, s float64, attempt int, phases ...string) {
	p.add(id, clock(s), domain.RunStarted{ClaimID: claim, Token: uuid.New(), Worker: "w", Attempt: attempt, LeaseUntil: clock(s + 2)})
	for _, ph := range phases {
		p.Journal = append(p.Journal, Line{id, attempt, ph})
	}
}

func (p *past) finished(id uuid.UUID, state domain.State) {
	p.Summaries[id] = Summary{state, p.versions[id]}
}

// ordinary is a run to which nothing happens.
func (p *past) ordinary(j Job, s float64) uuid.UUID {
	id := p.scheduled(j, s)
	claim := p.claimed(id, s+0.02, 1)
	p.started(id, claim, s+0.03, 1, Whole)
	p.add(id, clock(s+0.1), domain.RunSucceeded{ClaimID: claim, Attempt: 1})
	p.finished(id, domain.Succeeded)
	return id
}

var lost = domain.RunError{Type: domain.ErrorLeaseOver, Message: "silent"}

// goodHistory has a worker killed at 10 s, and everything that may come of it.
func goodHistory(t *testing.T) (p *past, ids map[string]uuid.UUID) {
	p = &past{t: t, versions: map[uuid.UUID]int{}}
	p.Summaries, p.Left = map[uuid.UUID]Summary{}, map[string]int{"claims": 0}
	p.Faults = []Fault{{Kind: "worker", Window: Window{clock(10), clock(11)}, Strikes: 5}}
	ids = map[string]uuid.UUID{}
	plain := p.job("plain", 5*time.Second, func(*Job) {})
	fragile := p.job("fragile", 10*time.Second, func(j *Job) { j.MaxAttempts = 1 })
	single := p.job("single", 5*time.Second, func(j *Job) { j.Overlap = domain.OverlapSkip })
	limited := p.job("limited", 10*time.Second, func(j *Job) { j.Limit = 1 })
	ids["limited job"] = limited.ID

	ids["plain"] = p.ordinary(plain, 5)
	ids["single"] = p.ordinary(single, 5)

	crashed := p.scheduled(plain, 10)
	ids["crashed"] = crashed
	c1 := p.claimed(crashed, 10.02, 1)
	p.started(crashed, c1, 10.03, 1, Began)
	held := p.scheduled(single, 10)
	ids["held"] = held
	h1 := p.claimed(held, 10.02, 1)
	p.started(held, h1, 10.03, 1, Began)
	failed := p.scheduled(fragile, 10)
	ids["failed"] = failed
	f1 := p.claimed(failed, 10.02, 1)
	p.started(failed, f1, 10.04, 1)
	released := p.scheduled(limited, 10)
	ids["released"] = released
	p.claimed(released, 10.05, 1)
	r1 := p.lastClaim(released)

	p.add(crashed, clock(12.5), domain.RunRetryScheduled{ClaimID: c1, Op: domain.OpExpire, Attempt: 1, ReadyAt: clock(12.6), Error: lost})
	p.add(held, clock(12.5), domain.RunRetryScheduled{ClaimID: h1, Op: domain.OpExpire, Attempt: 1, ReadyAt: clock(15.5), Error: lost})
	p.add(failed, clock(12.5), domain.RunFailed{ClaimID: f1, Op: domain.OpExpire, Attempt: 1, Error: lost})
	p.finished(failed, domain.Failed)
	c2 := p.claimed(crashed, 12.7, 1)
	p.started(crashed, c2, 12.8, 2, Began, Ended)
	p.add(crashed, clock(13), domain.RunSucceeded{ClaimID: c2, Attempt: 2})
	p.finished(crashed, domain.Succeeded)

	p.ordinary(plain, 15)
	skipped := p.scheduled(single, 15)
	ids["skipped"] = skipped
	p.add(skipped, clock(15.1), domain.RunSkipped{Reason: domain.SkippedOverlap, BlockedBy: &held})
	p.finished(skipped, domain.Skipped)
	h2 := p.claimed(held, 15.6, 1)
	p.started(held, h2, 15.7, 2, Whole)
	p.add(held, clock(15.8), domain.RunSucceeded{ClaimID: h2, Attempt: 2})
	p.finished(held, domain.Succeeded)

	p.add(released, clock(18.1), domain.RunReleased{ClaimID: r1, Op: domain.OpExpire, Reason: domain.ReasonNotStarted, ReadyAt: clock(18.1)})
	r2 := p.claimed(released, 18.2, 2)
	p.started(released, r2, 18.3, 1, Whole)
	p.add(released, clock(18.4), domain.RunSucceeded{ClaimID: r2, Attempt: 1})
	p.finished(released, domain.Succeeded)

	for _, j := range []Job{plain, single, fragile, limited} {
		p.ordinary(j, 20)
		p.add(j.ID, clock(20.2), domain.JobPaused{Reason: "over"})
	}
	p.witnessed(ids)
	p.Feed = []Published{}
	for _, e := range p.Events {
		p.Feed = append(p.Feed, Published{e.StreamID, e.Version, e.Type})
	}
	p.Feed = append(p.Feed, p.Feed[len(p.Feed)-3:]...) // its owner died before it noted how far it was
	return p, ids
}

func (p *past) lastClaim(run uuid.UUID) (id uuid.UUID) {
	for _, rec := range p.Events {
		var c domain.RunClaimed
		if rec.StreamID == run && rec.Type == c.EventType() {
			if err := json.Unmarshal(rec.Data, &c); err != nil {
				p.t.Fatal(err)
			}
			id = c.ClaimID
		}
	}
	return id
}

func TestGoodHistory(t *testing.T) {
	p, _ := goodHistory(t)
	r, v := p.Judge()
	if s := v.String(); s != "" {
		t.Errorf("without reason:\n%s", s)
	}
	want := Report{Runs: 16, Executions: 16, Duplicates: 3, Excused: 4, Retries: 3, Released: 1, Recovered: 4, Published: len(p.Feed), Repeats: 3}
	got := r
	got.Faults, got.Strikes, got.Repeated, got.States, got.Lateness = nil, nil, nil, nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := len(r.Lateness); n != 14 || r.Lateness[0] != 30*time.Millisecond || r.Lateness[n-1] != 8300*time.Millisecond {
		t.Errorf("lateness %v", r.Lateness)
	}
	states := map[domain.State]int{domain.Succeeded: 12, domain.Failed: 1, domain.Skipped: 1, domain.Cancelled: 2}
	if !maps.Equal(r.States, states) || !maps.Equal(r.Faults, map[string]int{"worker": 1}) || !maps.Equal(r.Strikes, map[string]int{"worker": 5}) ||
		!maps.Equal(r.Repeated, map[string]int{"worker": 3}) {
		t.Errorf("states %v, faults %v, strikes %v, repeated %v", r.States, r.Faults, r.Strikes, r.Repeated)
	}
	if s := r.String(); !strings.Contains(s, "duplicates") || !strings.Contains(s, "worker") {
		t.Errorf("table:\n%s", s)
	}
}

func TestViolationsAreCounted(t *testing.T) {
	var v Violations
	for i := range 12 {
		v.add("lost instant", "%d", i)
	}
	if s := v.String(); !strings.Contains(s, "lost instant: 4") || strings.Contains(s, "lost instant: 5") || !strings.Contains(s, "and 7 more") {
		t.Errorf("%s", s)
	}
}

func TestDue(t *testing.T) {
	j := Job{Anchor: clock(3), Every: 2 * time.Second}
	for _, c := range []struct {
		from, until float64
		want        []float64
	}{
		{0, 7, []float64{3, 5, 7}},
		{3, 7, []float64{5, 7}},
		{2.9, 3, []float64{3}},
		{5.5, 8.9, []float64{7}},
		{9, 9, nil},
		{0, 2, nil},
	} {
		var got []float64
		for _, i := range j.due(clock(c.from), clock(c.until)) {
			got = append(got, i.time().Sub(dawn).Seconds())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %v up to %v: %v, want %v", c.from, c.until, got, c.want)
		}
	}
}

func TestReadJournal(t *testing.T) {
	id := uuid.New()
	lines, err := ReadJournal(strings.NewReader(id.String() + " 2 whole\n"))
	if err != nil || len(lines) != 1 || lines[0] != (Line{id, 2, Whole}) {
		t.Errorf("%v %v", lines, err)
	}
	for _, bad := range []string{"x 1 whole", id.String() + " one whole", id.String() + " 1", "\n"} {
		if _, err := ReadJournal(strings.NewReader(bad + "\n")); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestServerLog(t *testing.T) {
	const text = `2026-05-01 06:00:00.000 UTC [7] postgres@daybook LOG:  something ordinary
2026-05-01 06:00:00.000 UTC [7] postgres@daybook ERROR:  claims closed: changed 0 rows, decided on 1
2026-05-01 06:00:00.000 UTC [8] postgres@daybook FATAL:  the database system is starting up
2026-05-01 06:00:00.000 UTC [8] @ PANIC:  could not write
2026-05-01 06:00:01.000 UTC [9] postgres@daybook ERROR:  canceling statement due to user request
2026-05-01 06:00:03.500 UTC [9] postgres@daybook ERROR:  canceling statement due to user request
`
	stopping := time.Date(2026, 5, 1, 6, 0, 3, 0, time.UTC)
	faults, used := ServerLog(text, []Excuse{
		{Why: "starting", Pattern: regexp.MustCompile(`starting up`)},
		{Why: "stopping", Pattern: regexp.MustCompile(`user request`), In: []Window{{stopping, stopping.Add(time.Second)}}},
	})
	if len(faults) != 3 || !strings.Contains(faults[0], "changed 0 rows") || !strings.Contains(faults[1], "PANIC") || !strings.Contains(faults[2], "06:00:01.000") ||
		used["starting"] != 1 || used["stopping"] != 1 {
		t.Errorf("%q %v", faults, used)
	}
}
