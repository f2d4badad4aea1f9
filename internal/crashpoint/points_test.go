package crashpoint_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/crashpoint"
)

// allVar makes the tests go through every case, and not the sample alone; saveVar
// names the folder that what became of them is saved in.
const (
	allVar  = "DAYBOOK_CRASH_ALL"
	saveVar = "DAYBOOK_CRASH_SAVE"
)

// trial is what is done to an engine, where, and who finishes its work.
type trial struct {
	Point  string `json:"point"`
	Action string `json:"action"` // kill, pause or error
	Hit    int    `json:"hit"`
	Heir   string `json:"heir"` // same: the replica itself, or started again; other: another one

	// What became of it.
	Passed  bool    `json:"passed"`
	Runs    int     `json:"runs"`
	Again   int     `json:"again"` // executions beyond the first of a run
	Seconds float64 `json:"seconds"`

	point crashpoint.Point
}

func (c trial) String() string { return fmt.Sprintf("%s/%s_%d_%s", c.Point, c.Action, c.Hit, c.Heir) }

const (
	kill, pause, failure = "kill", "pause", "error"
	same, other          = "same", "other"
)

// trials are all there are: every point, at its first and second hit, with each
// action and each heir. Errors are for points that can report one.
func trials() (all []trial) {
	for _, p := range here() {
		for _, action := range []string{kill, pause, failure} {
			for hit := 1; hit <= 2; hit++ {
				for _, heir := range []string{same, other} {
					if action != failure || p.Errs() {
						all = append(all, trial{Point: p.String(), point: p, Action: action, Hit: hit, Heir: heir})
					}
				}
			}
		}
	}
	return all
}

// here are the points on the ways of an engine that runs for moments. Those of
// retention are tested where it is.
func here() []crashpoint.Point {
	return slices.DeleteFunc(crashpoint.All(), func(p crashpoint.Point) bool { return strings.HasPrefix(p.String(), "retention.") })
}

// sample has a crash before and one after a commit, one on each side of a
// publication, one between commit and reply, and one while claims are closed; an
// error, and an engine that wakes up with claims in its hands that are long over.
var sample = []trial{
	{Point: "materialize.post_commit", Action: kill, Hit: 1, Heir: other},
	{Point: "claim.pre_commit", Action: kill, Hit: 1, Heir: other},
	{Point: "claim.post_commit", Action: kill, Hit: 2, Heir: same},
	{Point: "relay.post_publish", Action: kill, Hit: 1, Heir: other},
	{Point: "start.post_commit", Action: kill, Hit: 1, Heir: other},
	{Point: "reaper.pre_commit", Action: kill, Hit: 1, Heir: same},
	{Point: "claim.post_commit", Action: failure, Hit: 1, Heir: same},
	{Point: "reaper.post_select", Action: pause, Hit: 1, Heir: other},
}

// Wherever an engine dies, stops or fails, it or another one brings all runs to
// their end.
func TestEveryPoint(t *testing.T) {
	var done results
	t.Cleanup(func() { done.save(t) })
	for _, c := range trials() {
		if os.Getenv(allVar) == "" && !slices.ContainsFunc(sample, func(s trial) bool { return s.String() == c.String() }) {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			t.Cleanup(func() {
				c.Passed, c.Seconds = !t.Failed(), time.Since(began).Seconds()
				done.add(t, c)
			})
			w := newWorld(t)
			w.undergo(t, c)
			w.drain(t)
			w.stopWorker()
			for _, p := range w.engines {
				p.stop(t)
			}
			c.Runs, c.Again = w.check(t)
		})
	}
}

// undergo does to the engine what the trial is about, and has its heir begin.
func (w *world) undergo(t *testing.T, c trial) {
	t.Helper()
	action := map[string]string{kill: "kill", pause: "stop", failure: "error"}[c.Action]
	e := w.startEngine(t, "first", fmt.Sprintf("%s:%d:%s", c.Point, c.Hit, action))
	w.reach(t, e, c)
	id := map[string]string{same: "first", other: "second"}[c.Heir]
	switch c.Action {
	case kill:
		e.await(t, e.ended, "the crash at "+c.Point)
		if e.err == nil || e.err.Error() != "signal: killed" {
			t.Fatalf("the engine ended with %v, want it killed", e.err)
		}
		w.forgetProjectors(t)
		w.startEngine(t, id, "")
	case pause:
		if c.Heir == other {
			w.startEngine(t, id, "")
		}
		time.Sleep(topology().Lease.DispatchLease + time.Second) // every lease that it knows is over
		e.signal(t, syscall.SIGCONT)
	case failure:
		if c.Heir == other {
			e.stop(t)
			w.startEngine(t, id, "")
		}
	}
}

// reach waits until the engine is at the point, and meanwhile gives it more of
// everything: nobody comes by a place twice who has nothing left to do.
func (w *world) reach(t *testing.T, e *process, c trial) {
	t.Helper()
	deadline := time.After(patience)
	every := time.Second
	if c.point == crashpoint.RelayPreDelete { // only when no claim takes the rows along
		every = 3 * time.Second
	}
	for {
		more := time.After(every)
		if c.Hit == 1 {
			more = nil
		}
		select {
		case <-e.reached:
			return
		case <-e.ended:
			select {
			case <-e.reached:
			default:
				t.Fatalf("the engine ended (%v) without reaching the point", e.err)
			}
			return
		case <-more:
			w.more(t, strings.HasPrefix(c.Point, "rearm."))
		case <-deadline:
			t.Fatalf("%s was not reached within %s", c, patience)
		}
	}
}

// results are what became of the trials.
type results struct {
	mu  sync.Mutex
	all []trial
}

func (r *results) add(t *testing.T, c trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, c)
	t.Logf("%d trials done, %s: %d runs, %d executions beyond the first, %.1f s", len(r.all), c, c.Runs, c.Again, c.Seconds)
}

func (r *results) save(t *testing.T) {
	dir := os.Getenv(saveVar)
	if dir == "" {
		return
	}
	b, err := json.MarshalIndent(r.all, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "crashpoints.json"), b, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// Every declared point is on some way that an engine goes.
func TestEveryPointIsReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.startEngine(t, "first", "trace")
	deadline := time.Now().Add(patience)
	var missing []string
	for n := 0; ; n++ {
		missing = nil
		for _, p := range here() {
			if !e.hit(p) {
				missing = append(missing, p.String())
			}
		}
		if len(missing) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(500 * time.Millisecond)
		if n < 6 { // some places are come by at leisure only
			w.more(t, n == 4)
		}
	}
	if len(missing) > 0 {
		t.Errorf("never reached: %s", strings.Join(missing, " "))
	}
	w.drain(t)
	w.stopWorker()
	e.stop(t)
	w.check(t)
}
