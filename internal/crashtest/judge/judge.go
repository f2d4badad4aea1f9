// Package judge decides, from what was written down, whether a scheduler that
// was killed again and again kept its word.
//
// It has three witnesses. The log says what was decided. The journal, which the
// commands themselves wrote outside of the system, says what was executed. The
// list of jobs, as it was handed in, says what was owed: the expected instants
// are computed from it by arithmetic of this package's own, not by the product's.
// The faults say what may be excused.
//
// The judge is told nothing by the scheduler that it can work out for itself.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// Job is a job as it was handed in: an interval from an anchor, active from its
// creation to its pause.
type Job struct {
	ID          uuid.UUID
	Name        string
	Anchor      time.Time
	Every       time.Duration // 0: runs on request only
	MaxAttempts int
	Overlap     domain.Overlap
	Limit       int    // of concurrency; 0 is none
	Queue, Kind string // empty: not said

	Created, Paused Window // in which it was asked for
}

// Window is a time that is known to lie between two others.
type Window struct{ From, Until time.Time }

func (w Window) holds(t time.Time, slack time.Duration) bool {
	return !t.Before(w.From.Add(-slack)) && !t.After(w.Until.Add(slack))
}

func (w Window) meets(from, until time.Time, slack time.Duration) bool {
	return !until.Before(w.From.Add(-slack)) && !from.After(w.Until.Add(slack))
}

// Fault is what was done to the system, until it was whole again.
type Fault struct {
	Kind string
	Window
	// Stalls says that a process was stopped without its knowing, or the clock of
	// the database moved: the only faults after which executions may overlap.
	Stalls bool `json:",omitempty"`
	// Strikes is how many runs were in hand when it came. A fault that meets none
	// proves nothing.
	Strikes int
}

// Slot is a row of the ledger of instants.
type Slot struct {
	Job uuid.UUID
	At  time.Time
	Run uuid.UUID
}

// Summary is a run as the read model has it.
type Summary struct {
	State   domain.State
	Version int
}

// Published is an event as the feed's subscribers got it.
type Published struct {
	Stream  uuid.UUID
	Version int
	Type    string
}

// History is everything that is known when all is over: the jobs are paused and
// the system had time to finish.
type History struct {
	Settings  Settings
	Jobs      []Job
	Events    []eventstore.Recorded // the whole log, each stream in its order
	Slots     []Slot
	Journal   []Line
	Faults    []Fault
	Summaries map[uuid.UUID]Summary
	Feed      []Published    // what subscribers got, in their order; nil: nobody looked
	Left      map[string]int // rows and messages left where there must be none now

	// Witnesses that not every test has; nil: nobody looked.
	Acts       []Act
	Lives      []Life
	Sink       []Key
	Dispatches []Dispatch
	Claims     []Claimed
	Asked      []Asked
	Tail       []Published
}

// Report counts what happened.
type Report struct {
	Faults     map[string]int
	Strikes    map[string]int // runs in hand when the faults came
	Repeated   map[string]int // executions beyond a run's first, by the fault that explains them
	Runs       int
	States     map[domain.State]int
	Executions int // begun, by the journal
	Duplicates int // of those, beyond one a run
	Excused    int // claims that faults ended after their start: as many duplicates can be explained
	Retries    int // attempts beyond the first, by the log
	Released   int // claims that nobody started in time
	Refunded   int // attempts given back by a worker that was told to stop
	Recovered  int // runs that lost a claim and succeeded all the same

	Published int // events that subscribers got
	Repeats   int // of those, the ones that they had before

	// From the instants to the first starts, sorted.
	Lateness []time.Duration
}

// Violations are what the system has no excuse for.
type Violations struct {
	counts map[string]int
	lines  []string
}

// examples is how many violations of a kind are told in full.
const examples = 5

func (v *Violations) add(kind, format string, args ...any) {
	if v.counts == nil {
		v.counts = map[string]int{}
	}
	id := invariantOf(kind)
	if v.counts[kind]++; v.counts[kind] <= examples {
		v.lines = append(v.lines, id+" "+kind+": "+fmt.Sprintf(format, args...))
	}
}

// Has reports whether there is a violation of the kind.
func (v *Violations) Has(kind string) bool { return v.counts[kind] > 0 }

// Kinds are the kinds of the violations, sorted.
func (v *Violations) Kinds() []string {
	var kinds []string
	for k := range v.counts {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// String tells all kinds, each with a few examples; it is empty if there are none.
func (v *Violations) String() string {
	lines := slices.Clone(v.lines)
	for _, k := range v.Kinds() {
		if n := v.counts[k] - examples; n > 0 {
			lines = append(lines, fmt.Sprintf("%s %s: and %d more", invariantOf(k), k, n))
		}
	}
	return strings.Join(lines, "\n")
}

// Judge compares the witnesses.
func (h History) Judge() (Report, *Violations) {
	v := &Violations{}
	l := readLog(h.Events, h.Settings.Clock, v)
	h.instants(l, v)
	h.ledger(l, v)
	h.skips(l, v)
	h.requests(l, v)
	cancelled := h.cancels(l, v)
	jobs := h.jobsByID()
	for _, r := range l.sorted() {
		h.path(r, v)
		if j, ok := jobs[r.JobID]; ok { // else its instant is invented
			h.run(l, j, r, cancelled, v)
		}
	}
	h.lanes(l, v)
	h.places(l, v)
	executions := h.executions(l, v)
	h.acts(l, v)
	h.dispatches(l, v)
	h.times(l, v)
	h.summaries(l, v)
	repeats := h.feed(v)
	h.tail(l, v)
	for table, n := range h.Left {
		switch {
		case n == 0:
		case table == OpenTransactions:
			v.add("open transaction", "%d", n)
		default:
			v.add("left", "%d in %s", n, table)
		}
	}
	r := h.report(l, executions)
	r.Published, r.Repeats = len(h.Feed), repeats
	return r, v
}

// OpenTransactions is what is left of transactions that nobody ended.
const OpenTransactions = "open transactions"

func (h History) report(l *log, executions map[uuid.UUID]int) Report {
	r := Report{Faults: map[string]int{}, Strikes: map[string]int{}, Repeated: map[string]int{}, Runs: len(l.runs), States: map[domain.State]int{}}
	for _, f := range h.Faults {
		r.Faults[f.Kind]++
		r.Strikes[f.Kind] += f.Strikes
	}
	for _, run := range l.runs {
		r.States[run.State]++
		n := executions[run.ID]
		r.Executions += n
		r.Duplicates += max(n-1, 0)
		if n > 1 {
			for _, kind := range h.explanations(run, n-1) {
				r.Repeated[kind]++
			}
		}
		r.Retries += max(run.starts-run.refunds-1, 0)
		r.Excused += run.crashes + run.refunds
		r.Released += run.releases
		r.Refunded += run.refunds
		if !run.first.IsZero() {
			r.Lateness = append(r.Lateness, run.first.Sub(run.ScheduledAt))
		}
		if run.State == domain.Succeeded && run.crashes+run.releases+run.refunds > 0 {
			r.Recovered++
		}
	}
	slices.Sort(r.Lateness)
	return r
}

// String is a table for people.
func (r Report) String() string {
	var b strings.Builder
	row := func(name string, n int) { fmt.Fprintf(&b, "%-30s %7d\n", name, n) }
	total := 0
	for _, n := range r.Faults {
		total += n
	}
	row("faults", total)
	for _, k := range sortedKeys(r.Faults) {
		row("  "+k, r.Faults[k])
	}
	row("runs", r.Runs)
	for _, k := range sortedKeys(r.States) {
		row("  "+string(k), r.States[k])
	}
	row("executions", r.Executions)
	row("duplicates", r.Duplicates)
	row("  explained at most", r.Excused)
	row("retries", r.Retries)
	row("claims never started", r.Released)
	row("attempts refunded", r.Refunded)
	row("runs recovered", r.Recovered)
	row("events published", r.Published)
	row("  repeated", r.Repeats)
	if n := len(r.Lateness); n > 0 {
		for _, q := range []struct {
			name string
			at   int
		}{{"median", n / 2}, {"99 of 100", n * 99 / 100}, {"latest", n - 1}} {
			fmt.Fprintf(&b, "%-30s %7.2f s\n", "start after instant, "+q.name, r.Lateness[q.at].Seconds())
		}
	}
	return b.String()
}

func sortedKeys[K cmp.Ordered](m map[K]int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
