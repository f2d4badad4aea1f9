package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

func newRun(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "run",
		Aliases: []string{"runs"},
		Short:   "Look at runs, cancel them, retry them",
		Long: `A run is one due instant of a job, or one request. It keeps its whole history: when it
was due, who claimed and started it, how each attempt ended, and what it wrote.`,
		Example: `  daybook run list --state failed --since 24h
  daybook run show ID`,
	}, newRunList(a), newRunShow(a), newRunEvents(a), newRunOutput(a), newRunCancel(a), newRunRetry(a), newRunParked(a), newRunUnpark(a))
}

func newRunList(a *app) *cobra.Command {
	var o struct {
		job, queue, kind, tag, text, since, until, cursor string
		states                                            []string
		limit                                             int
	}
	var out format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List runs, the newest first",
		Long: `Lists runs by their instants, the newest first. The list comes from a read model that
follows the log within moments; 'daybook run show' reads the log itself.

A page ends with a cursor for the next one, if there is more. States are pending, claimed,
running, succeeded, failed, cancelled and skipped.`,
		Example: `  daybook run list
  daybook run list --job nightly-report --state failed --since 7d
  daybook run list --since 2026-03-01 --until 2026-04-01 --limit 500 -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := projections.RunFilter{Job: o.job, Queue: o.queue, Kind: o.kind, Tag: o.tag, Text: o.text, Limit: o.limit, Cursor: o.cursor}
			if o.limit < 1 || o.limit > projections.MaxPage {
				return usage("--limit %d: want 1 to %d; the cursor of a page leads to the next", o.limit, projections.MaxPage)
			}
			for _, s := range o.states {
				f.States = append(f.States, domain.State(strings.TrimSpace(s)))
			}
			var err error
			if f.Since, err = a.optionalWhen("since", o.since, -1); err != nil {
				return err
			}
			if f.Until, err = a.optionalWhen("until", o.until, -1); err != nil {
				return err
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error { return a.listRuns(ctx, c, out, f) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.job, "job", "", "of this job")
	f.StringSliceVar(&o.states, "state", nil, "in this state (repeatable)")
	f.StringVar(&o.queue, "queue", "", "of this queue")
	f.StringVar(&o.kind, "kind", "", "of this kind")
	f.StringVar(&o.tag, "tag", "", "of jobs with this tag")
	f.StringVar(&o.text, "error", "", "with this text in the error")
	f.StringVar(&o.since, "since", "", "due at or after: an instant, a local time, or 24h ago")
	f.StringVar(&o.until, "until", "", "due before")
	f.IntVar(&o.limit, "limit", 50, "runs at most, up to 500")
	f.StringVar(&o.cursor, "cursor", "", "go on after the page that ended with it")
	_ = cmd.RegisterFlagCompletionFunc("job", a.jobNames)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	outputFlag(cmd, &out, asTable)
	return cmd
}

func stateNames() []cobra.Completion {
	var names []cobra.Completion
	for _, s := range domain.States {
		names = append(names, string(s))
	}
	return names
}

// noticeableLag is how far behind a list may be without a word.
const noticeableLag = 3 * time.Second

// freshPatience is how long a list may take to know what was done before it was
// asked for.
const freshPatience = 2 * time.Second

// freshRuns lists runs when the list has everything that was in the log when it was
// asked for: who has just asked for a run looks for it. If that takes too long, or
// nobody follows the log, it is the list as it is.
func freshRuns(ctx context.Context, c client.Runs, f projections.RunFilter) (projections.RunPage, error) {
	began := time.Now()
	for {
		page, err := c.ListRuns(ctx, f)
		waited := time.Since(began)
		fresh := page.Lag.Events == 0 || page.Lag.Behind.Std() < waited && !page.Lag.CatchingUp
		if err != nil || fresh || page.Lag.Owner == "" || waited > freshPatience {
			return page, err
		}
		select {
		case <-ctx.Done():
			return page, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (a *app) listRuns(ctx context.Context, c client.Client, out format, f projections.RunFilter) error {
	page, err := freshRuns(ctx, c, f)
	if err != nil {
		return err
	}
	if page.Runs == nil {
		page.Runs = []projections.RunSummary{}
	}
	if f.Job != "" && len(page.Runs) == 0 && f.Cursor == "" {
		if _, err := c.Job(ctx, f.Job); err != nil {
			return noSuchJob(ctx, c, f.Job, err)
		}
	}
	empty := "no runs"
	if page.Next != "" {
		empty = "no runs among those looked at"
	}
	if err := write(a, out, a.runList(page, empty)); err != nil {
		return err
	}
	if b := page.Lag.Behind.Std(); b > noticeableLag {
		fmt.Fprintf(a.err, "the list is %s behind the log\n", rough(b))
	}
	if page.Next != "" && out != asJSON {
		fmt.Fprintf(a.err, "there is more: %s--cursor %s\n", samePage(f), page.Next)
	}
	return nil
}

// samePage is the range of the list, in instants: a cursor belongs to it, and
// "24h ago" means another one with every call.
func samePage(f projections.RunFilter) string {
	s := ""
	if !f.Since.IsZero() {
		s += "--since " + f.Since.UTC().Format(time.RFC3339Nano) + " "
	}
	if !f.Until.IsZero() {
		s += "--until " + f.Until.UTC().Format(time.RFC3339Nano) + " "
	}
	return s
}

func (a *app) runList(page projections.RunPage, empty string) list[projections.RunSummary] {
	type run = projections.RunSummary
	return list[run]{
		items: page.Runs,
		whole: page,
		id:    func(r run) string { return r.RunID.String() },
		empty: empty,
		columns: []column[run]{
			{title: "RUN", text: func(r run) string { return r.RunID.String() }},
			{title: "JOB", text: func(r run) string { return r.Job }},
			{title: "STATE", text: func(r run) string { return stateOf(r) }},
			{title: "DUE", text: func(r run) string { return a.clock(r.ScheduledAt) }},
			{title: "ORIGIN", wide: true, text: func(r run) string { return string(r.Origin) }},
			{title: "QUEUE", wide: true, text: func(r run) string { return r.Queue }},
			{title: "KIND", wide: true, text: func(r run) string { return r.Kind }},
			{title: "STARTED", wide: true, text: func(r run) string { return a.clockOr(r.StartedAt, "") }},
			{title: "TOOK", text: took},
			{title: "ATTEMPT", text: func(r run) string { return strconv.Itoa(r.Attempt) }},
			{title: "WORKER", wide: true, text: func(r run) string { return r.Worker }},
			{title: "KEY", wide: true, text: func(r run) string { return r.Key }},
			{title: "WHY", text: func(r run) string { return a.why(r) }},
		},
	}
}

func stateOf(r projections.RunSummary) string {
	if r.CancelRequested {
		return string(r.State) + " (cancel)"
	}
	return string(r.State)
}

func took(r projections.RunSummary) string {
	if d, ok := r.Duration(); ok {
		return rough(d)
	}
	return ""
}

// why says why a run is as it is, where that is not plain.
func (a *app) why(r projections.RunSummary) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.ErrorMessage != "" || r.ErrorType != "":
		return errorText(domain.RunError{Type: r.ErrorType, Message: r.ErrorMessage})
	case r.State == domain.Pending && !r.ReadyAt.Equal(r.ScheduledAt):
		return "from " + a.clock(r.ReadyAt)
	}
	return ""
}

func runID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return id, usage("%q is no id of a run: want one such as 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90, from 'daybook run list'", plain(s))
	}
	return id, nil
}
