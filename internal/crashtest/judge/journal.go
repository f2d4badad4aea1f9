package judge

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Line is what a command wrote about itself.
type Line struct {
	Run     uuid.UUID
	Attempt int
	Phase   string
}

// The phases of an execution. One that takes no time writes a single line.
const (
	Began = "began"
	Ended = "ended"
	Whole = "whole"
)

// Write is the shell command that writes a line of the journal. A line is one
// write to a file opened for appending: it is there as a whole or not at all,
// whenever its writer is killed.
func Write(phase, file string) string {
	return fmt.Sprintf(`echo "$DAYBOOK_RUN_ID $DAYBOOK_ATTEMPT %s" >>'%s'`, phase, file)
}

// ReadJournal reads what commands wrote.
func ReadJournal(r io.Reader) ([]Line, error) {
	var lines []Line
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		f := strings.Fields(s.Text())
		if len(f) != 3 {
			return nil, fmt.Errorf("journal line %d: %q", n, s.Text())
		}
		id, err := uuid.Parse(f[0])
		if err != nil {
			return nil, fmt.Errorf("journal line %d: %w", n, err)
		}
		attempt, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("journal line %d: %w", n, err)
		}
		lines = append(lines, Line{id, attempt, f[2]})
	}
	return lines, s.Err()
}

type attempt struct {
	run uuid.UUID
	no  int
}

// lines are the journal's, and what the witnesses saw their handlers do.
func (h History) lines() []Line {
	lines := slices.Clone(h.Journal)
	for _, a := range h.Acts {
		switch a.What {
		case Starts:
			lines = append(lines, Line{a.Run, a.Attempt, Began})
		case Ends:
			lines = append(lines, Line{a.Run, a.Attempt, Ended})
		}
	}
	return lines
}

// executions compares the journal with the log, and counts how often each run's
// command began.
func (h History) executions(l *log, v *Violations) map[uuid.UUID]int {
	began, ended := map[attempt]int{}, map[attempt]int{}
	for _, j := range h.lines() {
		a := attempt{j.Run, j.Attempt}
		if j.Phase != Ended {
			began[a]++
		}
		if j.Phase != Began {
			ended[a]++
		}
	}
	starts := map[attempt]int{}
	for _, r := range l.runs {
		for _, e := range r.events {
			switch e := e.Event.(type) {
			case domain.RunStarted:
				starts[attempt{r.ID, e.Attempt}]++
			case domain.RunSucceeded:
				if ended[attempt{r.ID, e.Attempt}] == 0 {
					v.add("success without execution", "run %s of job %s, attempt %d", r.ID, r.Job, e.Attempt)
				}
			}
		}
	}
	n := map[uuid.UUID]int{}
	for a, times := range began {
		n[a.run] += times
		// Each start is for one execution; only attempts that were refunded have
		// more than one.
		if times > starts[a] {
			v.add("execution without start", "run %s attempt %d: executed %d times, started %d times", a.run, a.no, times, starts[a])
		}
	}
	for id, times := range n {
		if r := l.runs[id]; r != nil && times-1 > r.crashes+r.refunds {
			v.add("unexplained execution", "run %s of job %s was executed %d times; %d claims were lost or given back after their start", id, r.Job, times, r.crashes+r.refunds)
		}
	}
	for a, times := range ended {
		if times > began[a] {
			v.add("journal", "run %s attempt %d ended %d times and began %d times", a.run, a.no, times, began[a])
		}
	}
	return n
}

// summaries checks that the read model says what the log says.
func (h History) summaries(l *log, v *Violations) {
	for id, r := range l.runs {
		if s := h.Summaries[id]; s.State != r.State || s.Version != r.Version {
			v.add("read model", "run %s is %s at version %d by the log, %s at version %d by the read model", id, r.State, r.Version, s.State, s.Version)
		}
	}
	for id := range h.Summaries {
		if l.runs[id] == nil {
			v.add("read model", "run %s is in the read model only", id)
		}
	}
}
