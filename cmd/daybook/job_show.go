package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/executor"
)

func newJobShow(a *app) *cobra.Command {
	var out format
	var asOf string
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a job: its definition, what comes next, how it fares",
		Long:              "Shows the definition in force, the next instants and the outcome of the runs so far, or\nwith --as-of the job as it stood then.",
		Example:           "  daybook job show nightly-report\n  daybook job show nightly-report --as-of 30d -o json",
		Args:              takes("NAME"),
		ValidArgsFunction: a.jobNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				at, err := a.optionalWhen("as-of", asOf, -1)
				if err != nil {
					return err
				}
				var job client.Job
				if at.IsZero() {
					job, err = c.Job(ctx, args[0])
				} else {
					job, err = c.JobAsOf(ctx, args[0], at)
				}
				switch {
				case errors.Is(err, eventstore.ErrNotFound) && !at.IsZero():
					return &exitError{code: exitNotFound, err: fmt.Errorf("there was no job %q at %s", plain(args[0]), a.clock(at))}
				case err != nil:
					return noSuchJob(ctx, c, args[0], err)
				case out == asID:
					fmt.Fprintln(a.out, job.Name)
					return nil
				case !out.people():
					return a.writeJSON(out, job)
				}
				return a.showJob(job)
			})
		},
	}
	outputFlag(cmd, &out, asTable)
	asOfFlag(cmd, &asOf)
	return cmd
}

func (a *app) showJob(j client.Job) error {
	s := j.Spec
	state := string(j.State)
	if j.PauseReason != "" {
		state += ": " + j.PauseReason
	}
	rows := [][2]string{{"Name", j.Name}, {"State", state}, {"Schedule", schedules(j)}}
	if set, err := s.Instants(); err == nil && set != nil {
		rows = append(rows, [2]string{"", set.Describe()})
		if j.State == client.Active {
			rows = append(rows, [2]string{"Next", a.nextFires(j)})
		}
	}
	rows = append(rows,
		[2]string{"Queue", s.Queue},
		[2]string{"Kind", s.Kind},
		[2]string{"Runs", describeTarget(s)},
		[2]string{"Arguments", string(s.Args)},
		[2]string{"Timeout", orNone(s.Timeout)},
		[2]string{"Attempts", describeRetry(s.Retry)},
		[2]string{"Overlap", string(s.Overlap)},
		[2]string{"Concurrency", describeConcurrency(s.Concurrency)},
		[2]string{"Misfire", describeMisfire(s)},
		[2]string{"Priority", strconv.Itoa(s.Priority)},
		[2]string{"Excluded", excluded(s)},
		[2]string{"Tags", strings.Join(s.Tags, ", ")},
		[2]string{"Source", s.Source},
		[2]string{"Outcomes", a.outcomes(j)},
		[2]string{"Created", a.clock(j.CreatedAt)},
		[2]string{"Changed", fmt.Sprintf("%s, version %d", a.clock(j.ChangedAt), j.Version)},
		[2]string{"Id", j.ID.String()})
	return a.sheet(rows...)
}

// nextFires are the next instants. The first may be before now: the engine has
// not come to it yet.
func (a *app) nextFires(j client.Job) string {
	set, err := j.Spec.Instants()
	if err != nil || j.NextFire == nil {
		return "never"
	}
	all := []string{a.clock(*j.NextFire)}
	at := *j.NextFire
	for range 2 {
		f, ok := set.Next(at)
		if !ok {
			break
		}
		at = f.At
		all = append(all, a.clock(at))
	}
	return strings.Join(all, ", ")
}

// describeTarget is what a built-in executor does, as one would type it.
func describeTarget(s domain.JobSpec) string {
	if len(s.Target) == 0 {
		return ""
	}
	var t executor.Target
	if s.Kind != domain.KindExec || json.Unmarshal(s.Target, &t) != nil {
		return string(s.Target)
	}
	words := t.Argv
	if t.Shell != "" {
		words = []string{cmp.Or(t.ShellPath, "sh"), "-c", t.Shell}
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellWord(w)
	}
	command := strings.Join(quoted, " ")
	if t.User != "" {
		command += " (as " + t.User + ")"
	}
	return command
}

var bareWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord writes a word as a shell would read it.
func shellWord(w string) string {
	if bareWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

func orNone(d domain.Duration) string {
	if d == 0 {
		return "none"
	}
	return rough(d.Std())
}

func describeRetry(p domain.RetryPolicy) string {
	if p.MaxAttempts == 1 {
		return "1, no retry"
	}
	return fmt.Sprintf("%d, waiting %s at first, ×%g, up to %s", p.MaxAttempts, rough(p.Initial.Std()), p.Multiplier, rough(p.Max.Std()))
}

func describeConcurrency(c *domain.Concurrency) string {
	switch {
	case c == nil:
		return ""
	case c.Key == "":
		return fmt.Sprintf("%d at a time", c.Limit)
	}
	return fmt.Sprintf("%d at a time for each %s", c.Limit, c.Key)
}

func describeMisfire(s domain.JobSpec) string {
	text := string(s.Misfire)
	if s.CatchupWindow > 0 {
		text += ", within " + rough(s.CatchupWindow.Std())
	}
	if s.Misfire == domain.MisfireAll && s.MaxCatchup > 0 {
		text += fmt.Sprintf(", at most %d", s.MaxCatchup)
	}
	return text
}

func excluded(s domain.JobSpec) string {
	switch {
	case len(s.Exclude) == 0:
		return ""
	case len(s.Calendars) > 0:
		return fmt.Sprintf("%s of %s", count(len(s.Exclude), "date"), strings.Join(s.Calendars, ", "))
	}
	return strings.Join(s.Exclude, ", ")
}

func (a *app) outcomes(j client.Job) string {
	st := j.Stats
	if st == nil {
		return "no run has finished yet"
	}
	var parts []string
	for _, n := range []struct {
		n    int64
		what string
	}{{st.Succeeded, "succeeded"}, {st.Failed, "failed"}, {st.Cancelled, "cancelled"}, {st.Skipped, "skipped"}} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	if st.ConsecutiveFailures > 1 {
		parts = append(parts, fmt.Sprintf("the last %d in a row failed", st.ConsecutiveFailures))
	}
	last := func(what string, t *time.Time) {
		if t != nil {
			parts = append(parts, what+" "+a.clock(*t))
		}
	}
	last("last success", st.LastSuccessAt)
	last("last failure", st.LastFailureAt)
	return strings.Join(parts, ", ")
}
