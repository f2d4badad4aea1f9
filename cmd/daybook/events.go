package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
)

func newEvents(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "events",
		Short:   "Read the log",
		Long:    "Every change of a job and of a run is an event. The log holds them all.",
		Example: "  daybook events tail --follow",
	}, newEventsTail(a))
}

// tail is what `events tail` reads.
type tail struct {
	after, stream string
	types         []string
	follow        bool
	limit         int
	log           *slog.Logger // for a person, of what holds a follower up
}

func newEventsTail(a *app) *cobra.Command {
	var o tail
	var out format
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Read events in commit-safe order",
		Long: `Reads the log from the beginning, from the event after a position, or from its end: no
event is missed, none comes twice, and the events of a stream come in the order of their
versions. Positions need not grow from one event to the next. What retention has let go of
is missing from the beginning; a position below the low mark is refused and the mark named.

On a terminal the events are lines for people, otherwise JSON, one event a line. With
--follow it goes on with what comes, until it is interrupted (exit code 130), and waits for
a database that goes away meanwhile.`,
		Example: `  daybook events tail --after 0 --limit 100
  daybook events tail --type RunFailed --follow
  daybook events tail --after end --follow -o jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				out = asLines
				if a.terminal() {
					out = asTable
				}
			}
			q, err := o.parse()
			if err != nil {
				return err
			}
			if o.follow && out == asJSON {
				return usage("--follow goes on, and -o json is one document: use -o jsonl")
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				w := &eventWriter{a: a, out: out}
				o.log = slog.New(slog.NewTextHandler(a.err, nil))
				if err := o.read(ctx, c, q, w); err != nil {
					return err
				}
				return w.end()
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.after, "after", "0", "position to begin after, or end for what comes from now on")
	f.StringSliceVar(&o.types, "type", nil, "only events of this type (repeatable), for example RunFailed")
	f.StringVar(&o.stream, "stream", "", "only events of this run or job, by its id")
	f.BoolVar(&o.follow, "follow", false, "go on with what comes")
	f.IntVar(&o.limit, "limit", 0, "end after so many events (default no limit)")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(eventTypes, cobra.ShellCompDirectiveNoFileComp))
	outputFlag(cmd, &out, "")
	return cmd
}

// eventTypes are the types that this version knows.
var eventTypes = []string{
	"JobCreated", "JobUpdated", "JobPaused", "JobResumed", "JobArchived", "FiresSkipped", "ZoneRulesChanged", "RunsRetired",
	"RunScheduled", "RunClaimed", "RunStarted", "RunReleased", "RunRetryScheduled", "RunSnoozed", "RunInterrupted",
	"RunCancelRequested", "RunSucceeded", "RunFailed", "RunCancelled", "RunSkipped",
}

func (o tail) parse() (q client.EventQuery, err error) {
	if o.after == "end" {
		q.From.AtEnd = true
	} else if q.From.After, err = strconv.ParseInt(o.after, 10, 64); err != nil || q.From.After < 0 {
		return q, usage("--after %q: want a position, as events have it, or end", plain(o.after))
	}
	if o.limit < 0 {
		return q, usage("--limit %d: want 0, which is no limit, or more", o.limit)
	}
	for _, t := range o.types {
		name, ok := eventType(t)
		if !ok {
			return q, usage("--type %q is none of %s", plain(t), strings.Join(eventTypes, ", "))
		}
		q.Types = append(q.Types, name)
	}
	if o.stream != "" {
		id, err := uuid.Parse(o.stream)
		if err != nil {
			return q, usage("--stream %q: want the id of a run or a job", plain(o.stream))
		}
		q.Streams = []uuid.UUID{id}
	}
	if o.follow {
		q.Wait = followWait
	}
	return q, nil
}

// eventType finds a type as it is stored, or as it is in CloudEvents and
// subjects: RunFailed, daybook.run.failed.v1, run-failed.
func eventType(s string) (string, bool) {
	bare := func(s string) string {
		s = strings.ToLower(s)
		s = strings.TrimSuffix(strings.TrimPrefix(s, "daybook."), ".v1")
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(s)
	}
	for _, t := range eventTypes {
		if bare(t) == bare(s) {
			return t, true
		}
	}
	return "", false
}

// followWait is how long a page may wait for an event.
const followWait = 20 * time.Second

// read reads pages until it has enough, or is at the end and does not follow.
func (o tail) read(ctx context.Context, c client.Log, q client.EventQuery, w *eventWriter) error {
	left := o.limit
	for began := false; ; began = true {
		q.Limit = max(left, 0) // 0: a whole page
		read := func() (client.EventPage, error) { return c.Events(ctx, q) }
		var page client.EventPage
		var err error
		if o.follow && began { // the place is kept, so whoever follows goes on from there
			page, err = untilThere(ctx, o.log, read)
		} else {
			page, err = read()
		}
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := w.write(e); err != nil {
				return err
			}
			if left--; left == 0 {
				return nil
			}
		}
		if q.From = page.Next; !page.More && !o.follow {
			return nil
		}
	}
}

// eventWriter writes events as they come.
type eventWriter struct {
	a       *app
	out     format
	written int
}

func (w *eventWriter) write(e client.Event) (err error) {
	w.written++
	switch w.out {
	case asJSON:
		lead := ",\n"
		if w.written == 1 {
			lead = `{"events":[` + "\n"
		}
		b, err := encode(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w.a.out, "%s%s", lead, b)
		return err
	case asLines:
		return w.a.writeJSON(asLines, e)
	case asID:
		_, err = fmt.Fprintf(w.a.out, "%s/%d\n", e.StreamID, e.Version)
	case asWide:
		_, err = fmt.Fprintf(w.a.out, "%8d  %s  %-18s  %s/%d  %s  %s\n", e.Position, w.a.clock(e.At), e.Type, e.StreamID, e.Version, plain(e.Actor), plain(w.a.detail(e)))
	default:
		_, err = fmt.Fprintf(w.a.out, "%8d  %s  %-18s  %s  %s\n", e.Position, w.a.clock(e.At), e.Type, e.StreamID, short(plain(w.a.detail(e)), maxLastCell))
	}
	return err
}

func (w *eventWriter) end() error {
	if w.out != asJSON {
		return nil
	}
	text := "\n]}\n"
	if w.written == 0 {
		text = `{"events":[]}` + "\n"
	}
	_, err := fmt.Fprint(w.a.out, text)
	return err
}
