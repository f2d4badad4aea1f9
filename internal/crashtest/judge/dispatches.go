package judge

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Dispatch is a hint of a message as it was written into the outbox, and the
// transaction that wrote it.
type Dispatch struct {
	Transaction string    `json:"xid"`
	Run         uuid.UUID `json:"run"`
	Claim       uuid.UUID `json:"claim"`
	Generation  int       `json:"generation,omitempty"` // above 0: written again after the broker's stream was lost
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind"`
}

// Claimed is the transaction that wrote a claim.
type Claimed struct {
	Transaction string    `json:"xid"`
	Claim       uuid.UUID `json:"claim"`
}

// dispatches checks that claims and dispatches were written together.
func (h History) dispatches(l *log, v *Violations) {
	if h.Dispatches == nil {
		return
	}
	written := map[string]int{} // by transaction and claim
	for _, d := range h.Dispatches {
		if r := l.runs[d.Run]; r == nil || r.Queue != d.Queue || r.Kind != d.Kind {
			v.add("wrong lane", "claim %s of run %s was dispatched to %s/%s", d.Claim, d.Run, d.Queue, d.Kind)
		}
		if d.Generation == 0 {
			written[d.Transaction+" "+d.Claim.String()]++
		}
	}
	known := map[string]bool{}
	for _, c := range h.Claims {
		key := c.Transaction + " " + c.Claim.String()
		known[key] = true
		if n := written[key]; n != 1 {
			v.add("claim without dispatch", "claim %s has %d dispatches in its transaction", c.Claim, n)
		}
	}
	for key := range written {
		if !known[key] {
			v.add("dispatch without claim", "transaction and claim %s", key)
		}
	}
}

// lanes checks that each run is what its job says.
func (h History) lanes(l *log, v *Violations) {
	for _, j := range h.Jobs {
		if j.Kind == "" {
			continue
		}
		for _, r := range l.byJob[j.ID] {
			if r.Job != j.Name || r.Queue != j.Queue || r.Kind != j.Kind {
				v.add("wrong lane", "run %s of %s in %s/%s; its job is %s in %s/%s", r.ID, r.Job, r.Queue, r.Kind, j.Name, j.Queue, j.Kind)
			}
		}
	}
}

// Asked is something a client asked for, and was answered or not.
type Asked struct {
	What     string    `json:"what"` // Request or Cancel
	Job      uuid.UUID `json:"job,omitzero"`
	Key      string    `json:"key,omitempty"`
	Run      uuid.UUID `json:"run,omitzero"`
	Answered bool      `json:"answered"` // with success
}

// What clients ask for.
const (
	Request = "request"
	Cancel  = "cancel"
)

// requests checks that each answered request has its run, that no run was made
// for none, and that no key has two.
func (h History) requests(l *log, v *Violations) {
	keys := map[string]bool{}
	name := func(job uuid.UUID, key string) string { return fmt.Sprint(job, " ", key) }
	for _, a := range h.Asked {
		if a.What != Request {
			continue
		}
		keys[name(a.Job, a.Key)] = true
		if r := l.runs[a.Run]; a.Answered && (r == nil || r.JobID != a.Job || r.Key != a.Key) {
			v.add("lost request", "key %s of job %s was answered with run %s, which is not in the log", a.Key, a.Job, a.Run)
		}
	}
	seen := map[string]uuid.UUID{}
	for id, r := range l.runs {
		if r.Origin != domain.OriginRequest {
			continue
		}
		k := name(r.JobID, r.Key)
		if !keys[k] {
			v.add("invented request", "run %s of job %s, key %s", id, r.Job, r.Key)
		}
		if other, ok := seen[k]; ok {
			v.add("key twice", "runs %s and %s of job %s, key %s", id, other, r.Job, r.Key)
		}
		seen[k] = id
	}
}

// cancels checks that each answered cancel is in the log.
func (h History) cancels(l *log, v *Violations) (asked map[uuid.UUID]bool) {
	asked = map[uuid.UUID]bool{}
	for _, a := range h.Asked {
		if a.What != Cancel {
			continue
		}
		asked[a.Run] = true
		r := l.runs[a.Run]
		if !a.Answered || r == nil {
			continue
		}
		found := false
		for _, e := range r.events {
			by, _ := letter(e.Event)
			found = found || by == 'X' || by == 'Q'
		}
		if !found {
			v.add("lost cancel", "run %s of job %s was cancelled, and the log does not say so", r.ID, r.Job)
		}
	}
	return asked
}
