package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// world is what is made up, the same every time but for the instant of now.
type world struct {
	runs, jobs int
	now        time.Time
	rnd        *rand.Rand
}

const (
	every   = 30 * time.Minute // each job fires so often
	workers = 40
)

func newWorld(runs, jobs int, now time.Time) *world {
	return &world{runs: runs, jobs: jobs, now: now.UTC().Truncate(time.Second), rnd: rand.New(rand.NewPCG(uint64(runs), uint64(jobs)))}
}

// instant is the i-th of each job, the first one first.
func (w *world) instant(i int) time.Time {
	return w.now.Truncate(every).Add(-time.Duration(w.instants()-1-i) * every)
}

func (w *world) instants() int { return w.runs / w.jobs }

// began is when the jobs were created.
func (w *world) began() time.Time { return w.instant(0).Add(-time.Minute) }

// spec is the definition of a job. A tag is of a twentieth of them, another of
// five; a queue has a tenth, a kind a twentieth.
func (w *world) spec(i int) domain.JobSpec {
	s := domain.JobSpec{
		Name: fmt.Sprintf("job-%05d", i), Schedules: []string{"0,30 * * * *"}, TimeZone: "UTC",
		Queue: fmt.Sprintf("queue-%d", i%10), Kind: fmt.Sprintf("kind-%d", i%20), Args: json.RawMessage(`{"scope": "all", "depth": 3}`),
		Timeout: domain.Duration(10 * time.Minute), Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority,
		Tags: []string{fmt.Sprintf("team-%d", i%20)},
	}
	if i < 5 {
		s.Tags = append(s.Tags, "billing")
	}
	return s
}

// story is the life of a run: its events, and where it ended up.
type story struct {
	run    domain.Run
	events []domain.Dated[domain.RunEvent]
}

func (s *story) add(at time.Time, e domain.RunEvent) error {
	var err error
	s.run, err = domain.EvolveRun(s.run, e, at)
	s.events = append(s.events, domain.Dated[domain.RunEvent]{Event: e, At: at})
	return err
}

func (w *world) id() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(w.rnd.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// tell makes up a run: nine of ten succeed at once, some after a failure, one in
// fifty fails for good, a few are skipped or cancelled; those of the last instant
// are still on their way.
func (w *world) tell(spec *domain.JobSpec, at time.Time, last bool) (s story, err error) {
	job := domain.JobID(spec.Name)
	s.run.ID = domain.SlotID(job, at)
	clock := at.Add(time.Duration(w.rnd.IntN(20_000)) * time.Microsecond)
	step := func(most time.Duration) time.Time {
		clock = clock.Add(time.Duration(1+w.rnd.Int64N(int64(most/time.Microsecond))) * time.Microsecond)
		return clock
	}
	add := func(e domain.RunEvent) {
		if err == nil {
			err = s.add(clock, e)
		}
	}
	var claim uuid.UUID
	try := func(attempt int) {
		claim = w.id()
		step(50 * time.Millisecond)
		add(domain.RunClaimed{ClaimID: claim, LeaseUntil: clock.Add(time.Minute), Dispatch: 1})
		step(5 * time.Millisecond)
		add(domain.RunStarted{ClaimID: claim, Token: w.id(), Worker: fmt.Sprintf("worker-%d", w.rnd.IntN(workers)), Attempt: attempt,
			LeaseUntil: clock.Add(time.Minute), Deadline: new(clock.Add(10 * time.Minute))})
		step(3 * time.Second)
	}
	add(domain.RunScheduled{JobID: job, Job: spec.Name, JobVersion: 1, Origin: domain.OriginSchedule, ScheduledAt: at, ReadyAt: at,
		Queue: spec.Queue, Kind: spec.Kind, Priority: spec.Priority})
	lot := w.rnd.IntN(1000)
	if last {
		lot += 1000
	}
	switch {
	case lot < 10:
		step(10 * time.Millisecond)
		add(domain.RunSkipped{Reason: "overlap"})
	case lot < 20:
		step(time.Second)
		add(domain.RunCancelled{Op: domain.OpCancel, Reason: "not needed today"})
	case lot < 40:
		try(1)
		add(domain.RunFailed{ClaimID: claim, Op: domain.OpFail, Attempt: 1, Error: w.failure()})
	case lot < 100:
		try(1)
		add(domain.RunRetryScheduled{ClaimID: claim, Op: domain.OpFail, Attempt: 1, ReadyAt: clock.Add(10 * time.Second), Error: w.failure()})
		clock = clock.Add(10 * time.Second)
		try(2)
		add(domain.RunSucceeded{ClaimID: claim, Attempt: 2})
	case lot < 1000:
		try(1)
		add(domain.RunSucceeded{ClaimID: claim, Attempt: 1})
	case lot < 1400: // pending
	case lot < 1600:
		claim = w.id()
		add(domain.RunClaimed{ClaimID: claim, LeaseUntil: clock.Add(time.Minute), Dispatch: 1})
	default:
		try(1)
	}
	return s, err
}

func (w *world) failure() domain.RunError {
	e := domain.RunError{Type: "timeout", Message: fmt.Sprintf("no answer from host-%d within 30s: the connection was given up", w.rnd.IntN(500))}
	if w.rnd.IntN(5) == 0 {
		e = domain.RunError{Type: "exit_status", Message: fmt.Sprintf("exit status %d: disk quota exceeded while writing the report", 1+w.rnd.IntN(9))}
	}
	return e
}
