//go:build linux

package crashtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/executor"
	"github.com/daybookhq/daybook/internal/proctest"
)

// leases are short enough that a test can wait for them, and long enough for a
// machine that is busy with other things.
const leases = "publish=2s,queue_wait=2s,ack_wait=1s,max_deliver=3,execution=3s,complete=3s,dispatch_lease=8s,execution_lease=8s"

// settings are the same for the judge, and how long things may take: the machine
// may be busy with other tests.
func settings(name string, seed int) judge.Settings {
	return judge.Settings{Name: name, Seed: seed, DispatchLease: 8 * time.Second, ExecutionLease: 8 * time.Second, MaxDeliver: 3,
		Reap: engine.ReapInterval, Margin: 30 * time.Second, Late: 30 * time.Second}
}

// endless is more attempts than there are faults: such a run succeeds in the end.
const endless = 1000

// workload is the jobs of a test: short commands every two to five seconds, a
// tenth of each kind of limit there is.
type workload struct {
	jobs     []judge.Job
	specs    []domain.JobSpec
	journals []string // files that the commands write to
	seen     *witnesses
}

// asked is the job of which clients ask for runs.
const asked = "on-request"

// watch has every third job executed by workers with a witness, and adds one whose
// runs are asked for.
func (w *workload) watch(t *testing.T, seen *witnesses) {
	t.Helper()
	w.seen = seen
	for i := range w.jobs {
		if i%10 >= 6 && i%10 <= 8 {
			millis := []int{0, 600, 1500}[i%10-6]
			w.witnessed(t, i, fmt.Sprintf(`{"millis":%d}`, millis))
		}
	}
	j := judge.Job{ID: domain.JobID(asked), Name: asked, MaxAttempts: endless, Overlap: domain.OverlapAllow}
	w.jobs = append(w.jobs, j)
	w.specs = append(w.specs, spec(t, j, domain.DefaultQueue, "true"))
	w.witnessed(t, len(w.jobs)-1, "")
}

func (w *workload) witnessed(t *testing.T, i int, args string) {
	t.Helper()
	w.jobs[i].Queue, w.jobs[i].Kind = domain.DefaultQueue, judge.WitnessKind
	s := &w.specs[i]
	s.Kind, s.Target = judge.WitnessKind, nil
	if args != "" {
		s.Args = json.RawMessage(args)
	}
	for _, problem := range s.Validate() {
		t.Fatalf("job %s: %v", s.Name, problem)
	}
}

// outside is the queue of the jobs that write to the second journal, if there is
// one.
const outside = "outside"

func newWorkload(t *testing.T, n int, journals ...string) *workload {
	t.Helper()
	w := &workload{journals: journals}
	base := time.Now().Add(-time.Minute).Truncate(time.Second)
	for i := range n {
		j := judge.Job{
			Name: fmt.Sprintf("job-%03d", i), Every: time.Duration(2+i%4) * time.Second, MaxAttempts: endless, Overlap: domain.OverlapAllow,
			Anchor: base.Add(time.Duration(i*37%5000) * time.Millisecond),
		}
		j.ID = domain.JobID(j.Name)
		journal, queue := journals[0], domain.DefaultQueue
		if i%10 == 5 && len(journals) > 1 {
			journal, queue = journals[1], outside
		}
		command := judge.Write(judge.Whole, journal)
		lasting := func(seconds string) string {
			return judge.Write(judge.Began, journal) + "; sleep " + seconds + "; " + judge.Write(judge.Ended, journal)
		}
		switch i % 10 {
		case 0:
			j.Overlap, command = domain.OverlapSkip, lasting("0.5")
		case 1:
			j.Overlap, command = domain.OverlapQueue, lasting("0.5")
		case 2:
			j.Limit, command = 1, lasting("0.2")
		case 3:
			j.MaxAttempts = 1
		case 4:
			command = lasting("1")
		}
		w.jobs = append(w.jobs, j)
		w.specs = append(w.specs, spec(t, j, queue, command))
	}
	return w
}

func spec(t *testing.T, j judge.Job, queue, command string) domain.JobSpec {
	t.Helper()
	target, err := json.Marshal(executor.Target{Shell: command})
	if err != nil {
		t.Fatal(err)
	}
	s := domain.JobSpec{
		Name: j.Name, TimeZone: domain.DefaultTimeZone,
		Queue: queue, Kind: domain.KindExec, Target: target, Timeout: domain.Duration(time.Minute),
		Retry: domain.RetryPolicy{MaxAttempts: j.MaxAttempts, Initial: domain.Duration(200 * time.Millisecond),
			Max: domain.Duration(2 * time.Second), Multiplier: 2},
		Overlap: j.Overlap, Priority: domain.DefaultPriority,
		// However long the system is down, it makes up for every instant.
		Misfire: domain.MisfireAll, CatchupWindow: 0, MaxCatchup: 0,
	}
	if j.Every > 0 {
		s.Schedules, s.StartAt = []string{"@every " + j.Every.String()}, &j.Anchor
	}
	if j.Limit > 0 {
		s.Concurrency = &domain.Concurrency{Limit: j.Limit}
	}
	for _, problem := range s.Validate() {
		t.Fatalf("job %s: %v", j.Name, problem)
	}
	return s
}

// apply creates the jobs. What is commanded a second time because the first
// answer was lost changes nothing.
func (w *workload) apply(t *testing.T, s *eventstore.Store) {
	t.Helper()
	w.command(t, s, func(i int) domain.JobCommand { return domain.ApplyJob{Spec: w.specs[i]} }, func(j *judge.Job) *judge.Window { return &j.Created })
}

// pause ends the jobs' instants.
func (w *workload) pause(t *testing.T, s *eventstore.Store) {
	t.Helper()
	w.command(t, s, func(int) domain.JobCommand { return domain.PauseJob{Reason: "the test is over"} }, func(j *judge.Job) *judge.Window { return &j.Paused })
}

func (w *workload) command(t *testing.T, s *eventstore.Store, do func(i int) domain.JobCommand, when func(*judge.Job) *judge.Window) {
	t.Helper()
	const batch = 50
	for from := 0; from < len(w.jobs); from += batch {
		until := min(from+batch, len(w.jobs))
		var commands []eventstore.JobCommand
		for i := from; i < until; i++ {
			commands = append(commands, eventstore.JobCommand{Name: w.jobs[i].Name, Do: do(i)})
		}
		window := judge.Window{From: time.Now()}
		proctest.Await(t, fmt.Sprintf("jobs %d to %d are commanded", from, until-1), nil, func() (bool, string) {
			_, err := s.CommandJobs(t.Context(), commands)
			if err != nil && !eventstore.IsTransient(err) {
				t.Fatal(err)
			}
			return err == nil, fmt.Sprint(err)
		})
		window.Until = time.Now()
		for i := from; i < until; i++ {
			*when(&w.jobs[i]) = window
		}
	}
}
