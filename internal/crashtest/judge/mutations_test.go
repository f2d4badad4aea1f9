package judge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// mutation breaks a good history in one way.
type mutation struct {
	kind string // of violation that notices
	edit func(p *past, ids map[string]uuid.UUID)
}

func dropStream(p *past, id uuid.UUID) {
	p.Events = slices.DeleteFunc(p.Events, func(r eventstore.Recorded) bool { return r.StreamID == id })
}

// rewrite changes the n-th event of a stream, counted from 1.
func rewrite[E domain.Event](p *past, stream uuid.UUID, n int, edit func(*E, *eventstore.Recorded)) {
	p.t.Helper()
	for i := range p.Events {
		rec := &p.Events[i]
		if rec.StreamID != stream || rec.Version != n {
			continue
		}
		var e E
		if rec.Type != e.EventType() {
			p.t.Fatalf("version %d is a %s", n, rec.Type)
		}
		if err := json.Unmarshal(rec.Data, &e); err != nil {
			p.t.Fatal(err)
		}
		edit(&e, rec)
		rec.Data, _ = domain.EncodeEvent(e)
		return
	}
	p.t.Fatalf("no version %d", n)
}

func dropJournal(p *past, keep func(Line) bool) {
	p.Journal = slices.DeleteFunc(p.Journal, func(l Line) bool { return !keep(l) })
}

var mutations = map[string]mutation{
	"a run is lost": {"lost instant", func(p *past, ids map[string]uuid.UUID) { dropStream(p, ids["plain"]) }},
	"a job is lost": {"lost job", func(p *past, ids map[string]uuid.UUID) { dropStream(p, ids["limited job"]) }},
	"a pause is lost": {"lost job", func(p *past, ids map[string]uuid.UUID) {
		p.Events = slices.DeleteFunc(p.Events, func(r eventstore.Recorded) bool { return r.StreamID == ids["limited job"] && r.Type == "JobPaused" })
	}},
	"a job nobody made": {"invented job", func(p *past, _ map[string]uuid.UUID) {
		p.add(uuid.New(), clock(1), domain.JobCreated{Spec: domain.JobSpec{Name: "ghost"}})
	}},
	"a run off its schedule": {"invented instant", func(p *past, _ map[string]uuid.UUID) { p.ordinary(p.Jobs[0], 7) }},
	"a run after the pause":  {"invented instant", func(p *past, _ map[string]uuid.UUID) { p.ordinary(p.Jobs[0], 25) }},
	"an instant with two runs": {"instant twice", func(p *past, ids map[string]uuid.UUID) {
		other := uuid.New()
		p.versions[other] = 0
		p.add(other, clock(5.01), domain.RunScheduled{JobID: p.Jobs[0].ID, Job: "plain", ScheduledAt: clock(5)})
		p.add(other, clock(5.02), domain.RunSkipped{})
	}},
	"a run under another id": {"foreign run", func(p *past, ids map[string]uuid.UUID) {
		other := uuid.New()
		for i := range p.Events {
			if p.Events[i].StreamID == ids["plain"] {
				p.Events[i].StreamID = other
			}
		}
	}},
	"instants skipped": {"skipped instants", func(p *past, _ map[string]uuid.UUID) {
		j := p.Jobs[0].ID
		rewrite(p, j, 2, func(_ *domain.JobPaused, r *eventstore.Recorded) { r.Version = 3 })
		p.versions[j] = 1
		p.add(j, clock(20), domain.FiresSkipped{From: clock(5), To: clock(5), Count: 1, Reason: "misfire"})
	}},
	"a slot is missing": {"run without slot", func(p *past, _ map[string]uuid.UUID) { p.Slots = p.Slots[1:] }},
	"a slot too many": {"slot without run", func(p *past, _ map[string]uuid.UUID) {
		p.Slots = append(p.Slots, Slot{p.Jobs[0].ID, clock(7), uuid.New()})
	}},
	"a slot of another instant": {"slot without run", func(p *past, _ map[string]uuid.UUID) { p.Slots[0].At = clock(6) }},
	"a run does not end": {"stuck", func(p *past, ids map[string]uuid.UUID) {
		p.Events = slices.DeleteFunc(p.Events, func(r eventstore.Recorded) bool { return r.StreamID == ids["plain"] && r.Type == "RunSucceeded" })
	}},
	"a version is missing": {"version gap", func(p *past, ids map[string]uuid.UUID) {
		p.Events = slices.DeleteFunc(p.Events, func(r eventstore.Recorded) bool { return r.StreamID == ids["plain"] && r.Version == 2 })
	}},
	"a second end": {"illegal path", func(p *past, ids map[string]uuid.UUID) {
		p.add(ids["plain"], clock(6), domain.RunFailed{ClaimID: p.lastClaim(ids["plain"]), Attempt: 1})
	}},
	"a stale claim succeeds": {"illegal path", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["plain"], 4, func(e *domain.RunSucceeded, _ *eventstore.Recorded) { e.ClaimID = uuid.New() })
	}},
	"an event of another version": {"undecodable", func(p *past, _ map[string]uuid.UUID) { p.Events[5].SchemaVersion = 99 }},
	"positions out of order": {"order", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["plain"], 2, func(_ *domain.RunClaimed, r *eventstore.Recorded) { r.Position = 1 })
	}},
	"a position twice": {"position twice", func(p *past, _ map[string]uuid.UUID) { p.Events[3].Position = p.Events[2].Position }},
	"time goes back": {"time back", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["plain"], 3, func(_ *domain.RunStarted, r *eventstore.Recorded) { r.At = clock(4) })
	}},
	"a claim id comes again": {"claim id twice", func(p *past, ids map[string]uuid.UUID) {
		c := p.lastClaim(ids["single"])
		rewrite(p, ids["plain"], 2, func(e *domain.RunClaimed, _ *eventstore.Recorded) { e.ClaimID = c })
	}},
	"a claim before its time": {"early claim", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["crashed"], 4, func(e *domain.RunRetryScheduled, _ *eventstore.Recorded) { e.ReadyAt = clock(60) })
	}},
	"a start after the lease": {"late start", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["plain"], 2, func(e *domain.RunClaimed, _ *eventstore.Recorded) { e.LeaseUntil = clock(5.025) })
	}},
	"a lease cut short": {"early expiry", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["crashed"], 3, func(e *domain.RunStarted, _ *eventstore.Recorded) { e.LeaseUntil = clock(40) })
	}},
	"an attempt lost for nothing": {"attempt lost without a fault", func(p *past, _ map[string]uuid.UUID) { p.Faults = nil }},
	"a claim idle for nothing": {"released without a fault", func(p *past, _ map[string]uuid.UUID) {
		p.Faults = []Fault{{Kind: "worker", Window: Window{clock(40), clock(41)}}}
	}},
	"an attempt given back for nothing": {"interrupted without a fault", func(p *past, ids map[string]uuid.UUID) {
		p.Faults = nil
		for i := range p.Events {
			if r := &p.Events[i]; r.StreamID == ids["crashed"] && r.Version == 4 {
				r.Type = "RunInterrupted"
			}
		}
	}},
	"a run given up early": {"gave up early", func(p *past, _ map[string]uuid.UUID) { p.Jobs[1].MaxAttempts = 2 }},
	"a run cancelled": {"cancelled", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["plain"], 4, func(e *domain.RunSucceeded, r *eventstore.Recorded) { r.Type = "RunCancelled" })
	}},
	"a run skipped although overlap is allowed": {"skipped", func(p *past, _ map[string]uuid.UUID) { p.Jobs[2].Overlap = domain.OverlapAllow }},
	"a run skipped for another that was over": {"skipped", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["skipped"], 2, func(e *domain.RunSkipped, _ *eventstore.Recorded) { id := ids["single"]; e.BlockedBy = &id })
	}},
	"a run skipped for one of another job": {"skipped", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["skipped"], 2, func(e *domain.RunSkipped, _ *eventstore.Recorded) { id := ids["plain"]; e.BlockedBy = &id })
	}},
	"two runs of a job that must not overlap": {"overlap", func(p *past, ids map[string]uuid.UUID) {
		s := ids["skipped"]
		p.Events = slices.DeleteFunc(p.Events, func(r eventstore.Recorded) bool { return r.StreamID == s && r.Version == 2 })
		rewrite(p, ids["held"], 5, func(_ *domain.RunClaimed, r *eventstore.Recorded) { r.Position += 3 })
		c := uuid.New()
		p.Events = append(p.Events, eventstore.Recorded{Category: domain.CategoryRun, StreamID: s, Version: 2, Position: p.Events[0].Position + 1000000,
			Type: "RunClaimed", SchemaVersion: 1, At: clock(15.2), Data: fmt.Appendf(nil, `{"claim_id":%q,"lease_until":%q,"dispatch":1}`, c, clock(23).Format(time.RFC3339Nano))})
		for i := range p.Events { // before its rival's end
			if r := &p.Events[i]; r.StreamID == ids["held"] && r.Type == "RunSucceeded" {
				r.Position += 2000000
			}
		}
	}},
	"more runs than the limit": {"limit", func(p *past, ids map[string]uuid.UUID) {
		for i := range p.Events { // the released claim ends after the next run of the job began
			if r := &p.Events[i]; r.StreamID == ids["released"] && r.Version > 2 {
				r.Position += 1000000
			}
		}
	}},
	"success out of nothing": {"success without execution", func(p *past, ids map[string]uuid.UUID) {
		dropJournal(p, func(l Line) bool { return l.Run != ids["plain"] })
	}},
	"success of an execution that did not end": {"success without execution", func(p *past, _ map[string]uuid.UUID) {
		dropJournal(p, func(l Line) bool { return l.Phase != Ended })
	}},
	"success of another attempt's execution": {"success without execution", func(p *past, ids map[string]uuid.UUID) {
		for i := range p.Journal {
			if l := &p.Journal[i]; l.Run == ids["crashed"] {
				l.Attempt = 1
			}
		}
	}},
	"one start executed twice": {"execution without start", func(p *past, ids map[string]uuid.UUID) {
		p.Journal = append(p.Journal, Line{ids["plain"], 1, Whole})
	}},
	"an execution nobody started": {"execution without start", func(p *past, _ map[string]uuid.UUID) {
		p.Journal = append(p.Journal, Line{uuid.New(), 1, Began})
	}},
	"an end without a beginning": {"journal", func(p *past, ids map[string]uuid.UUID) {
		p.Journal = append(p.Journal, Line{ids["plain"], 1, Ended})
	}},
	"the read model lags":          {"read model", func(p *past, ids map[string]uuid.UUID) { p.Summaries[ids["plain"]] = Summary{domain.Running, 3} }},
	"the read model lost a run":    {"read model", func(p *past, ids map[string]uuid.UUID) { delete(p.Summaries, ids["plain"]) }},
	"the read model made a run up": {"read model", func(p *past, _ map[string]uuid.UUID) { p.Summaries[uuid.New()] = Summary{domain.Pending, 1} }},
	"an event nobody was told of": {"unpublished event", func(p *past, ids map[string]uuid.UUID) {
		p.Feed = slices.DeleteFunc(p.Feed, func(e Published) bool { return e.Stream == ids["crashed"] && e.Version == 7 })
	}},
	"events told out of order": {"feed order", func(p *past, ids map[string]uuid.UUID) {
		p.Feed = append([]Published{{ids["crashed"], 3, "RunStarted"}}, p.Feed...)
	}},
	"an event that is not in the log": {"invented event", func(p *past, _ map[string]uuid.UUID) {
		p.Feed = append(p.Feed, Published{uuid.New(), 1, "RunScheduled"})
	}},
	"an event told as another": {"invented event", func(p *past, _ map[string]uuid.UUID) { p.Feed[3].Type = "RunFailed" }},
	"a row is left":            {"left", func(p *past, _ map[string]uuid.UUID) { p.Left["claims"] = 1 }},
}

// Each mutation is noticed, and by the check that is there for it, also when the
// history has been saved and read again. An invariant that no mutation breaks is
// none.
func TestMutations(t *testing.T) {
	noticed := map[string]bool{}
	all := maps.Clone(mutations)
	maps.Copy(all, witnessMutations)
	for name, m := range all {
		p, ids := goodHistory(t)
		m.edit(p, ids)
		dir := t.TempDir()
		if err := p.Save(dir); err != nil {
			t.Fatal(err)
		}
		h, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, v := h.Judge(); !v.Has(m.kind) {
			t.Errorf("%s: want %q, have:\n%s", name, m.kind, v)
		}
		noticed[m.kind] = true
	}
	for _, i := range Invariants {
		for _, kind := range i.Kinds {
			if !noticed[kind] {
				t.Errorf("%s: no mutation is noticed as %q", i.ID, kind)
			}
		}
	}
	t.Logf("%d mutations of %d kinds", len(all), len(noticed))
}

func TestInvariantsHaveTheirNumbers(t *testing.T) {
	seen := map[string]string{}
	for n, i := range Invariants {
		if i.ID != fmt.Sprintf("I%d", n+1) {
			t.Errorf("invariant %d is named %s", n+1, i.ID)
		}
		for _, k := range i.Kinds {
			if seen[k] != "" {
				t.Errorf("%q is of %s and of %s", k, seen[k], i.ID)
			}
			seen[k] = i.ID
		}
	}
}
