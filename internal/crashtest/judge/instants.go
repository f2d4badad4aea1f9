package judge

import (
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// instant is a due time of a job, in microseconds since 1970.
type instant struct {
	job uuid.UUID
	at  int64
}

func at(job uuid.UUID, t time.Time) instant { return instant{job, t.UnixMicro()} }

func (i instant) time() time.Time { return time.UnixMicro(i.at).UTC() }

// due lists what an interval names after from, up to until inclusive.
func (j Job) due(from, until time.Time) []instant {
	every := j.Every.Microseconds()
	first := j.Anchor.UnixMicro()
	if d := from.UnixMicro() - first; d >= 0 {
		first += (d/every + 1) * every
	}
	var all []instant
	for t := first; t <= until.UnixMicro(); t += every {
		all = append(all, instant{j.ID, t})
	}
	return all
}

// instants checks that each owed instant has one run, and no other has any. The
// jobs make up for everything they missed, so that none may be skipped.
func (h History) instants(l *log, v *Violations) {
	runs := map[instant][]*run{}
	for _, r := range l.runs {
		if r.Origin == domain.OriginRequest {
			continue
		}
		i := at(r.JobID, r.ScheduledAt)
		runs[i] = append(runs[i], r)
		if want := domain.SlotID(r.JobID, r.ScheduledAt); r.ID != want {
			v.add("foreign run", "run %s is not the run of its instant, %s", r.ID, want)
		}
	}
	owed := map[instant]bool{}
	for _, j := range h.Jobs {
		created, paused, ok := l.active(j, h.Settings.slack(), v)
		if !ok || j.Every == 0 {
			continue
		}
		for _, i := range j.due(created, paused) {
			owed[i] = true
			switch n := len(runs[i]); {
			case n == 0:
				v.add("lost instant", "job %s at %s has no run", j.Name, i.time())
			case n > 1:
				v.add("instant twice", "job %s at %s has %d runs", j.Name, i.time(), n)
			}
		}
	}
	for i, all := range runs {
		if !owed[i] {
			v.add("invented instant", "job %s has a run at %s", all[0].Job, i.time())
		}
	}
}

// active is when the job was, by the log, and only if the log agrees with those
// who asked for it.
func (l *log) active(j Job, slack time.Duration, v *Violations) (created, paused time.Time, ok bool) {
	stream := l.jobs[j.ID]
	if stream == nil {
		v.add("lost job", "job %s has no stream", j.Name)
		return created, paused, false
	}
	for _, e := range stream.events {
		switch e.Event.(type) {
		case domain.JobCreated:
			created = e.at
		case domain.JobPaused:
			paused = e.at
		}
	}
	if !j.Created.holds(created, slack) || !j.Paused.holds(paused, slack) {
		v.add("lost job", "job %s is active from %s to %s by the log; it was created between %s and %s and paused between %s and %s",
			j.Name, created, paused, j.Created.From, j.Created.Until, j.Paused.From, j.Paused.Until)
		return created, paused, false
	}
	return created, paused, true
}

// skips checks that no job was denied an instant, and that there are no others.
func (h History) skips(l *log, v *Violations) {
	known := map[uuid.UUID]bool{}
	for _, j := range h.Jobs {
		known[j.ID] = true
		if stream := l.jobs[j.ID]; stream != nil {
			for _, e := range stream.events {
				if s, ok := e.Event.(domain.FiresSkipped); ok {
					v.add("skipped instants", "job %s: %d from %s to %s for %s", j.Name, s.Count, s.From, s.To, s.Reason)
				}
			}
		}
	}
	for id, j := range l.jobs {
		if !known[id] {
			v.add("invented job", "job %s", j.Spec.Name)
		}
	}
}

// ledger checks that slots and runs are the same.
func (h History) ledger(l *log, v *Violations) {
	seen := map[uuid.UUID]bool{}
	for _, s := range h.Slots {
		r := l.runs[s.Run]
		seen[s.Run] = true
		if r == nil || at(s.Job, s.At) != at(r.JobID, r.ScheduledAt) {
			v.add("slot without run", "slot %s of job %s names run %s", s.At, s.Job, s.Run)
		}
	}
	for id, r := range l.runs {
		if !seen[id] && r.Origin != domain.OriginRequest {
			v.add("run without slot", "run %s of job %s at %s", id, r.Job, r.ScheduledAt)
		}
	}
}
