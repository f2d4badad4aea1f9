package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// witnessed adds to a good history what those saw who watch more closely: of a
// run that a worker's death interrupts, of two that were asked for, one of which
// is cancelled before its start and another one while it runs.
func (p *past) witnessed(ids map[string]uuid.UUID) {
	p.Settings = Settings{Name: "good", DispatchLease: 8 * time.Second, ExecutionLease: 2 * time.Second, MaxDeliver: 3,
		Reap: time.Second, Margin: 4 * time.Second, Late: 2 * time.Second, Healed: clock(11)}
	p.Left[OpenTransactions] = 0
	p.Acts, p.Sink, p.Lives = []Act{}, []Key{}, []Life{{"w1", clock(10.5)}, {"w2", clock(60)}}

	j := p.job("witnessed", 10*time.Second, func(j *Job) { j.Kind, j.Queue = WitnessKind, "default" })
	r := p.scheduledAs(j, 10)
	ids["witnessed"] = r
	c1 := p.claimed(r, 10.02, 1)
	p.delivered("w1", r, c1, 10.03)
	p.begun("w1", r, c1, 10.04, 1)
	p.act(Act{At: clock(10.1), Worker: "w1", What: Effect, Run: r, Claim: c1})
	p.Sink = append(p.Sink, Key{r})
	p.add(r, clock(12.5), domain.RunRetryScheduled{ClaimID: c1, Op: domain.OpExpire, Attempt: 1, ReadyAt: clock(12.6), Error: lost})
	c2 := p.claimed(r, 12.7, 1)
	p.delivered("w2", r, c2, 12.71)
	p.begun("w2", r, c2, 12.8, 2)
	p.act(Act{At: clock(12.85), Worker: "w2", What: Repeated, Run: r, Claim: c2})
	p.completed("w2", r, c2, 12.9, 2)
	p.add(j.ID, clock(19.5), domain.JobPaused{Reason: "over"})

	asked := p.job("asked", 0, func(j *Job) { j.Kind, j.Queue = WitnessKind, "default" })
	ids["asked"] = p.requested(asked, "k1", 13)
	c3 := p.claimed(ids["asked"], 13.1, 1)
	p.delivered("w2", ids["asked"], c3, 13.11)
	p.begun("w2", ids["asked"], c3, 13.2, 1)
	p.act(Act{At: clock(13.3), Worker: "w2", What: Effect, Run: ids["asked"], Claim: c3})
	p.Sink = append(p.Sink, Key{ids["asked"]})
	p.completed("w2", ids["asked"], c3, 13.4, 1)
	ids["cancelled"] = p.requested(asked, "k2", 14)
	p.add(ids["cancelled"], clock(14.1), domain.RunCancelled{Op: domain.OpCancel})
	p.finished(ids["cancelled"], domain.Cancelled)
	ids["flagged"] = p.requested(asked, "k3", 15)
	c4 := p.claimed(ids["flagged"], 15.1, 1)
	p.delivered("w2", ids["flagged"], c4, 15.11)
	p.begun("w2", ids["flagged"], c4, 15.2, 1)
	p.add(ids["flagged"], clock(15.5), domain.RunCancelRequested{ClaimID: c4})
	p.act(Act{At: clock(15.6), Worker: "w2", What: Ends, Run: ids["flagged"], Claim: c4, Attempt: 1})
	p.act(Act{At: clock(15.8), Sent: clock(15.7), Worker: "w2", What: Answered, Op: "fail", Code: "recorded", Run: ids["flagged"], Claim: c4})
	p.add(ids["flagged"], clock(15.75), domain.RunCancelled{ClaimID: &c4, Op: domain.OpFail})
	p.finished(ids["flagged"], domain.Cancelled)
	p.Asked = append(p.Asked, Asked{What: Cancel, Run: ids["cancelled"], Answered: true}, Asked{What: Cancel, Run: ids["flagged"], Answered: true})
	p.add(asked.ID, clock(20.2), domain.JobPaused{Reason: "over"})

	p.Tail, p.Dispatches, p.Claims = []Published{}, []Dispatch{}, []Claimed{}
	for _, e := range p.Events {
		p.Tail = append(p.Tail, Published{e.StreamID, e.Version, e.Type})
		if ev, err := e.Event(); err == nil {
			if c, ok := ev.(domain.RunClaimed); ok {
				xid := fmt.Sprint(e.Position)
				lane := "exec"
				if slices.Contains([]uuid.UUID{ids["witnessed"], ids["asked"], ids["flagged"]}, e.StreamID) {
					lane = WitnessKind
				}
				p.Claims = append(p.Claims, Claimed{xid, c.ClaimID})
				p.Dispatches = append(p.Dispatches, Dispatch{Transaction: xid, Run: e.StreamID, Claim: c.ClaimID, Queue: "default", Kind: lane})
			}
		}
	}
	// A claim that was open when the stream was lost is dispatched again.
	p.Dispatches = append(p.Dispatches, Dispatch{Transaction: "7", Run: r, Claim: c1, Generation: 1, Queue: "default", Kind: WitnessKind})
}

func (p *past) act(a Act) { p.Acts = append(p.Acts, a) }

func (p *past) scheduledAs(j Job, s float64) uuid.UUID {
	id := domain.SlotID(j.ID, clock(s))
	p.add(id, clock(s+0.01), domain.RunScheduled{JobID: j.ID, Job: j.Name, JobVersion: 1, Origin: domain.OriginSchedule, ScheduledAt: clock(s), ReadyAt: clock(s), Queue: j.Queue, Kind: j.Kind})
	p.Slots = append(p.Slots, Slot{j.ID, clock(s), id})
	return id
}

func (p *past) requested(j Job, key string, s float64) uuid.UUID {
	id := domain.KeyID(j.ID, key, clock(s))
	p.add(id, clock(s), domain.RunScheduled{JobID: j.ID, Job: j.Name, JobVersion: 1, Origin: domain.OriginRequest, Key: key, ScheduledAt: clock(s), ReadyAt: clock(s), Queue: j.Queue, Kind: j.Kind})
	p.Asked = append(p.Asked, Asked{What: Request, Job: j.ID, Key: key, Run: id, Answered: true})
	return id
}

func (p *past) delivered(w string, run, claim uuid.UUID, s float64) {
	p.act(Act{At: clock(s), Worker: w, What: Received, Run: run, Claim: claim, Delivery: 1, Message: "d.c." + claim.String()[:4], ID: claim.String(), First: true, Queue: "default", Kind: WitnessKind})
}

func (p *past) begun(w string, run, claim uuid.UUID, s float64, attempt int) {
	p.started(run, claim, s, attempt)
	p.act(Act{At: clock(s + 0.01), Sent: clock(s - 0.01), Worker: w, What: Answered, Op: "start", Code: "started", Run: run, Claim: claim, Attempt: attempt})
	p.act(Act{At: clock(s + 0.02), Worker: w, What: Starts, Run: run, Claim: claim, Attempt: attempt})
}

func (p *past) completed(w string, run, claim uuid.UUID, s float64, attempt int) {
	p.act(Act{At: clock(s), Worker: w, What: Ends, Run: run, Claim: claim, Attempt: attempt})
	p.add(run, clock(s+0.02), domain.RunSucceeded{ClaimID: claim, Attempt: attempt})
	p.act(Act{At: clock(s + 0.03), Sent: clock(s + 0.01), Worker: w, What: Answered, Op: "complete", Code: "recorded", Run: run, Claim: claim})
	p.act(Act{At: clock(s + 0.04), Worker: w, What: Acked, Run: run, Claim: claim})
	p.finished(run, domain.Succeeded)
}

// acted edits the acts of a run that are of the kind.
func acted(p *past, run uuid.UUID, what string, edit func(*Act)) {
	for i := range p.Acts {
		if a := &p.Acts[i]; a.Run == run && a.What == what {
			edit(a)
		}
	}
}

var witnessMutations = map[string]mutation{
	"a run ends twice": {"second end", func(p *past, ids map[string]uuid.UUID) {
		p.add(ids["asked"], clock(16), domain.RunCancelled{Op: domain.OpCancel})
	}},
	"a run fails that was never started": {"starved", func(p *past, ids map[string]uuid.UUID) {
		s := ids["cancelled"]
		for i := range p.Events {
			if r := &p.Events[i]; r.StreamID == s && r.Type == "RunCancelled" {
				r.Type = "RunFailed"
				r.Data = fmt.Appendf(nil, `{"claim_id":%q,"op":"expire","attempt":0,"error":{}}`, uuid.Nil)
			}
		}
	}},
	"another claim's worker completes": {"fence", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["asked"], 4, func(e *domain.RunSucceeded, _ *eventstore.Recorded) { e.ClaimID = uuid.New() })
	}},
	"a claim before the one before is closed": {"claims overlap", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["witnessed"], 5, func(_ *domain.RunClaimed, r *eventstore.Recorded) { r.At = clock(12.4) })
	}},
	"a request lost": {"lost request", func(p *past, ids map[string]uuid.UUID) {
		p.Asked = append(p.Asked, Asked{What: Request, Job: domain.JobID("asked"), Key: "k9", Run: uuid.New(), Answered: true})
	}},
	"a run nobody asked for": {"invented request", func(p *past, _ map[string]uuid.UUID) { p.Asked[0].Key = "other" }},
	"a key with two runs": {"key twice", func(p *past, _ map[string]uuid.UUID) {
		j := p.Jobs[len(p.Jobs)-1]
		id := domain.KeyID(j.ID, "k1", clock(19))
		p.add(id, clock(19), domain.RunScheduled{JobID: j.ID, Job: j.Name, JobVersion: 1, Origin: domain.OriginRequest, Key: "k1", ScheduledAt: clock(19), ReadyAt: clock(19), Queue: j.Queue, Kind: j.Kind})
	}},
	"a claim without its dispatch": {"claim without dispatch", func(p *past, _ map[string]uuid.UUID) { p.Dispatches = p.Dispatches[1:] }},
	"a dispatch of another transaction": {"claim without dispatch", func(p *past, _ map[string]uuid.UUID) {
		p.Dispatches[2].Transaction = "another"
	}},
	"a dispatch of no claim": {"dispatch without claim", func(p *past, _ map[string]uuid.UUID) {
		d := p.Dispatches[0]
		d.Claim = uuid.New()
		p.Dispatches = append(p.Dispatches, d)
	}},
	"a dispatch to another lane": {"wrong lane", func(p *past, _ map[string]uuid.UUID) { p.Dispatches[0].Kind = "other" }},
	"a message on another lane": {"wrong lane", func(p *past, ids map[string]uuid.UUID) {
		acted(p, ids["asked"], Received, func(a *Act) { a.Kind = "other" })
	}},
	"a run of another queue": {"wrong lane", func(p *past, _ map[string]uuid.UUID) { p.Jobs[len(p.Jobs)-1].Queue = "other" }},
	"a message named by its run": {"message id", func(p *past, ids map[string]uuid.UUID) {
		acted(p, ids["witnessed"], Received, func(a *Act) { a.ID = a.Run.String() })
	}},
	"told it is recorded": {"recorded without event", func(p *past, ids map[string]uuid.UUID) {
		p.act(Act{At: clock(13.5), Sent: clock(13.4), Worker: "w1", What: Answered, Op: "complete", Code: "recorded", Run: ids["witnessed"], Claim: uuid.New()})
	}},
	"success without an effect": {"success without effect", func(p *past, ids map[string]uuid.UUID) {
		p.Acts = slices.DeleteFunc(p.Acts, func(a Act) bool { return a.Run == ids["witnessed"] && a.What == Repeated })
	}},
	"execution of an unknown claim": {"execution without claim", func(p *past, ids map[string]uuid.UUID) {
		acted(p, ids["asked"], Starts, func(a *Act) { a.Claim = uuid.New() })
	}},
	"a start after the claim was closed": {"zombie", func(p *past, ids map[string]uuid.UUID) {
		for i := range p.Acts {
			if a := &p.Acts[i]; a.Run == ids["witnessed"] && a.What == Starts && a.Attempt == 1 {
				a.At = clock(14)
			}
		}
	}},
	"a message delivered too often": {"deliveries", func(p *past, ids map[string]uuid.UUID) {
		acted(p, ids["asked"], Received, func(a *Act) { a.Delivery = 4 })
	}},
	"an effect lost": {"effect lost", func(p *past, _ map[string]uuid.UUID) { p.Sink = p.Sink[1:] }},
	"an effect twice": {"effect twice", func(p *past, ids map[string]uuid.UUID) {
		acted(p, ids["witnessed"], Repeated, func(a *Act) { a.What = Effect })
	}},
	"an effect of nothing": {"effect of nothing", func(p *past, ids map[string]uuid.UUID) { p.Sink = append(p.Sink, Key{ids["cancelled"]}) }},
	"a claim executed by two": {"claim executed twice", func(p *past, ids map[string]uuid.UUID) {
		for _, a := range p.Acts {
			if a.Run == ids["asked"] && a.What == Starts {
				a.Worker, a.At = "w1", a.At.Add(time.Millisecond)
				p.act(a)
				break
			}
		}
	}},
	"a run executed by two": {"executions overlap", func(p *past, _ map[string]uuid.UUID) { p.Lives[0].Until = clock(30) }},
	"an attempt too many":   {"too many attempts", func(p *past, _ map[string]uuid.UUID) { p.Jobs[len(p.Jobs)-2].MaxAttempts = 1 }},
	"a lease too short": {"short lease", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["asked"], 2, func(e *domain.RunClaimed, _ *eventstore.Recorded) { e.LeaseUntil = clock(15) })
	}},
	"an execution lease too short": {"short lease", func(p *past, ids map[string]uuid.UUID) {
		rewrite(p, ids["asked"], 3, func(e *domain.RunStarted, _ *eventstore.Recorded) { e.LeaseUntil = clock(13.3) })
	}},
	"a run starts late for nothing": {"late", func(p *past, _ map[string]uuid.UUID) {
		p.Faults[0].Until, p.Settings.Margin = clock(10), 0
		p.Faults[0].From = clock(5)
		p.Settings.DispatchLease, p.Settings.ExecutionLease, p.Settings.Reap = 0, 0, 0
		p.Settings.Late = 10 * time.Millisecond
	}},
	"a run ends late": {"slow recovery", func(p *past, _ map[string]uuid.UUID) { p.Settings.Margin = -8 * time.Second }},
	"a cancel lost": {"lost cancel", func(p *past, ids map[string]uuid.UUID) {
		p.Asked = append(p.Asked, Asked{What: Cancel, Run: ids["asked"], Answered: true})
	}},
	"an answer from the future": {"not linearizable", func(p *past, ids map[string]uuid.UUID) {
		for i := range p.Acts { // the completion is answered before the start is asked for
			if a := &p.Acts[i]; a.Run == ids["asked"] && a.What == Answered && a.Op == "complete" {
				a.Sent, a.At = clock(13), clock(13.1)
			}
		}
	}},
	"told it is over while it runs": {"not linearizable", func(p *past, ids map[string]uuid.UUID) {
		p.act(Act{At: clock(10), Sent: clock(9.9), Worker: "w1", What: Answered, Op: "start", Code: "terminal", Run: ids["asked"], Claim: uuid.New()})
	}},
	"told a claim is stale that is open": {"not linearizable", func(p *past, ids map[string]uuid.UUID) {
		p.act(Act{At: clock(10.2), Sent: clock(10.1), Worker: "w3", What: Answered, Op: "start", Code: "stale_claim", Run: ids["witnessed"], Claim: firstClaim(p, ids["witnessed"])})
	}},
	"executed once more than anything explains": {"unexplained execution", func(p *past, ids map[string]uuid.UUID) {
		p.Journal = append(p.Journal, Line{ids["asked"], 2, Began})
	}},
	"a reader misses an event": {"tail", func(p *past, ids map[string]uuid.UUID) {
		p.Tail = slices.DeleteFunc(p.Tail, func(e Published) bool { return e.Stream == ids["asked"] && e.Version == 4 })
	}},
	"a reader gets an event twice": {"tail", func(p *past, _ map[string]uuid.UUID) { p.Tail = append(p.Tail, p.Tail[0]) }},
	"a transaction left open":      {"open transaction", func(p *past, _ map[string]uuid.UUID) { p.Left[OpenTransactions] = 1 }},
}

func firstClaim(p *past, run uuid.UUID) uuid.UUID {
	for _, a := range p.Acts {
		if a.Run == run && a.What == Received {
			return a.Claim
		}
	}
	return uuid.Nil
}
