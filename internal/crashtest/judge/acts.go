package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Act is what the witness in a worker saw: what went over its wire, and what its
// handlers did.
type Act struct {
	At      time.Time `json:"at"`
	Worker  string    `json:"worker"` // one life of it
	What    string    `json:"what"`
	Run     uuid.UUID `json:"run"`
	Claim   uuid.UUID `json:"claim,omitzero"`
	Attempt int       `json:"attempt,omitempty"`

	// Of a message.
	Delivery int    `json:"delivery,omitempty"`
	Message  string `json:"message,omitempty"` // stream, consumer and sequence
	ID       string `json:"id,omitempty"`      // Nats-Msg-Id
	First    bool   `json:"first,omitempty"`   // the first hint of its message
	Queue    string `json:"queue,omitempty"`
	Kind     string `json:"kind,omitempty"`

	// Of an answer.
	Sent time.Time `json:"sent,omitzero"` // when the request was
	Op   string    `json:"op,omitempty"`
	Code string    `json:"code,omitempty"`
}

// What a witness sees.
const (
	Received = "received" // a hint, in a message or in the answer to a poll
	Acked    = "acked"
	Answered = "answered" // Op and Code say what was asked and what became of it
	Starts   = "starts"   // a handler
	Effect   = "effect"   // is there, by this execution
	Repeated = "repeated" // was there, by another one
	Ends     = "ends"     // a handler
)

// Answers, as the protocol has them, besides the codes of refusals.
const (
	codeStarted   = "started"
	codeRecorded  = "recorded"
	codeUnchanged = "unchanged"
)

// Key is what the sink of effects has under the run's id.
type Key struct {
	Run uuid.UUID `json:"run"`
}

// Life is one life of a witness.
type Life struct {
	Worker string    `json:"worker"`
	Until  time.Time `json:"until"`
}

// acts compares what the witnesses saw with the log.
func (h History) acts(l *log, v *Violations) {
	began := map[uuid.UUID]map[uuid.UUID]bool{} // by run and claim: the log's starts
	for _, r := range l.runs {
		for _, e := range r.events {
			if s, ok := e.Event.(domain.RunStarted); ok {
				if began[r.ID] == nil {
					began[r.ID] = map[uuid.UUID]bool{}
				}
				began[r.ID][s.ClaimID] = true
			}
		}
	}
	effects, done := map[uuid.UUID]int{}, map[uuid.UUID]bool{} // by run, by claim
	ids := map[string]uuid.UUID{}
	for _, a := range h.Acts {
		switch a.What {
		case Received:
			h.received(l, a, ids, v)
		case Answered:
			h.answered(l, a, v)
		case Starts:
			if !began[a.Run][a.Claim] {
				v.add("execution without claim", "run %s: worker %s executes claim %s, which the log has not started", a.Run, a.Worker, a.Claim)
			}
			if c, ok := l.closed(a.Run, a.Claim); ok && a.At.After(c.Add(h.Settings.slack())) && !h.frozen(c.Add(-h.Settings.ExecutionLease), a.At) {
				v.add("zombie", "run %s: worker %s begins claim %s at %s, which was closed at %s", a.Run, a.Worker, a.Claim, a.At, c)
			}
		case Effect:
			effects[a.Run]++
			done[a.Claim] = true
		case Repeated:
			done[a.Claim] = true
		}
	}
	h.effects(l, effects, done, v)
	h.overlaps(v)
	h.register(l, v)
}

func (h History) received(l *log, a Act, ids map[string]uuid.UUID, v *Violations) {
	if most := h.Settings.MaxDeliver; most > 0 && a.Delivery > most {
		v.add("deliveries", "message %s of run %s was delivered %d times, at most %d are allowed", a.Message, a.Run, a.Delivery, most)
	}
	if r := l.runs[a.Run]; r != nil && a.Kind != "" && (a.Queue != r.Queue || a.Kind != r.Kind) {
		v.add("wrong lane", "run %s of %s/%s came by %s/%s", a.Run, r.Queue, r.Kind, a.Queue, a.Kind)
	}
	if a.ID == "" || !a.First {
		return
	}
	// A message that was re-armed says so behind a colon.
	if id, err := uuid.Parse(a.ID[:min(36, len(a.ID))]); err != nil || id != a.Claim {
		v.add("message id", "message %s of claim %s of run %s has the id %s", a.Message, a.Claim, a.Run, a.ID)
	}
	if other, ok := ids[a.ID]; ok && other != a.Claim {
		v.add("message id", "the id %s is of claims %s and %s", a.ID, other, a.Claim)
	}
	ids[a.ID] = a.Claim
}

// answered checks that what a worker was told is so.
func (h History) answered(l *log, a Act, v *Violations) {
	if a.Code != codeStarted && a.Code != codeRecorded && a.Code != codeUnchanged {
		return
	}
	if _, ok := l.find(a); !ok {
		v.add("recorded without event", "run %s: worker %s was told that its %s of claim %s is %s", a.Run, a.Worker, a.Op, a.Claim, a.Code)
	}
}

// find is the event that an answer speaks of.
func (l *log) find(a Act) (event, bool) {
	r := l.runs[a.Run]
	if r == nil {
		return event{}, false
	}
	for _, e := range r.events {
		by, claim := letter(e.Event)
		if claim != a.Claim {
			continue
		}
		ok := false
		switch a.Op {
		case "start":
			ok = by == 'B'
		case "complete":
			ok = by == 'K' || by == 'F' || by == 'T' // a result that cannot be stored
		case "fail":
			ok = by == 'F' || by == 'T' || by == 'X'
		case "snooze":
			ok = by == 'Z' || by == 'X'
		case "release":
			ok = by == 'R' || by == 'I' || by == 'X'
		}
		if ok {
			return e, true
		}
	}
	return event{}, false
}

// closed is when the claim was.
func (l *log) closed(run, claim uuid.UUID) (time.Time, bool) {
	if r := l.runs[run]; r != nil {
		for _, e := range r.events {
			by, c := letter(e.Event)
			if c == claim && by != 'C' && by != 'B' && by != 'Q' {
				return e.at, true
			}
		}
	}
	return time.Time{}, false
}

// effects compares the sink, where an effect is made one time for a run's id,
// with the log.
func (h History) effects(l *log, effects map[uuid.UUID]int, done map[uuid.UUID]bool, v *Violations) {
	if h.Sink == nil {
		return
	}
	sink := map[uuid.UUID]bool{}
	for _, k := range h.Sink {
		sink[k.Run] = true
		if r := l.runs[k.Run]; r == nil || r.starts == 0 {
			v.add("effect of nothing", "run %s has an effect and was not started", k.Run)
		}
	}
	for id, n := range effects {
		if n > 1 {
			v.add("effect twice", "run %s: %d times", id, n)
		}
	}
	for _, r := range l.runs {
		if r.State != domain.Succeeded || r.Kind != WitnessKind {
			continue
		}
		if !sink[r.ID] {
			v.add("effect lost", "run %s of job %s succeeded", r.ID, r.Job)
		}
		if _, claim := letter(r.events[len(r.events)-1].Event); !done[claim] {
			v.add("success without effect", "run %s of job %s: claim %s succeeded", r.ID, r.Job, claim)
		}
	}
}

// WitnessKind is the kind of the jobs whose runs workers with a witness execute.
const WitnessKind = "witness"

type execution struct {
	worker      string
	claim       uuid.UUID
	from, until time.Time
}

// overlaps looks for executions of one run at the same time. That of a worker
// that was killed ends with it.
func (h History) overlaps(v *Violations) {
	died := map[string]time.Time{}
	for _, l := range h.Lives {
		died[l.Worker] = l.Until
	}
	runs := map[uuid.UUID][]execution{}
	for _, a := range h.Acts {
		switch a.What {
		case Starts:
			until, ok := died[a.Worker]
			if !ok {
				until = a.At.Add(24 * time.Hour)
			}
			runs[a.Run] = append(runs[a.Run], execution{a.Worker, a.Claim, a.At, until})
		case Ends:
			all := runs[a.Run]
			for i := range all {
				if e := &all[i]; e.worker == a.Worker && e.claim == a.Claim && !a.At.Before(e.from) {
					e.until = a.At
				}
			}
		}
	}
	for id, all := range runs {
		slices.SortFunc(all, func(a, b execution) int { return a.from.Compare(b.from) })
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			switch {
			case a.claim == b.claim && b.from.Before(a.until):
				v.add("claim executed twice", "run %s claim %s: by %s until %s, by %s from %s", id, a.claim, a.worker, a.until, b.worker, b.from)
			case b.from.Add(slack).Before(a.until) && !h.frozen(a.from, b.from):
				v.add("executions overlap", "run %s: claim %s by %s until %s, claim %s by %s from %s", id, a.claim, a.worker, a.until, b.claim, b.worker, b.from)
			}
		}
	}
}

// frozen reports whether something was done between the two times that stops a
// process without its knowing, or that makes the database's clock run ahead.
func (h History) frozen(from, until time.Time) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.Stalls && f.meets(from, until, slack) })
}

// register checks that the claim behaves like one register: of two answers about
// a run, one given before the other was asked for, the first is of an earlier
// event, or both are of the same.
func (h History) register(l *log, v *Violations) {
	type answer struct {
		Act
		version int
	}
	runs := map[uuid.UUID][]answer{}
	for _, a := range h.Acts {
		if a.What != Answered || a.Sent.IsZero() {
			continue
		}
		switch a.Code {
		case codeStarted, codeRecorded, codeUnchanged:
			if e, ok := l.find(a); ok {
				runs[a.Run] = append(runs[a.Run], answer{a, e.version})
			}
		case string(domain.CodeTerminal), string(domain.CodeCancelled):
			r := l.runs[a.Run]
			if r == nil || !r.State.Terminal() || r.ChangedAt.After(a.At.Add(h.Settings.slack())) {
				v.add("not linearizable", "run %s: worker %s was told at %s that it is over", a.Run, a.Worker, a.At)
			}
		case string(domain.CodeStaleClaim):
			if c, ok := l.closed(a.Run, a.Claim); ok && c.After(a.At.Add(h.Settings.slack())) {
				v.add("not linearizable", "run %s: worker %s was told at %s that claim %s is stale, which was closed at %s", a.Run, a.Worker, a.At, a.Claim, c)
			}
		}
	}
	for id, all := range runs {
		slices.SortFunc(all, func(a, b answer) int { return cmp.Compare(a.version, b.version) })
		for i := range all {
			for _, later := range all[i+1:] {
				if later.version > all[i].version && later.At.Before(all[i].Sent) {
					v.add("not linearizable", "run %s: version %d was answered at %s, before version %d was asked for at %s", id, later.version, later.At, all[i].version, all[i].Sent)
				}
			}
		}
	}
}
