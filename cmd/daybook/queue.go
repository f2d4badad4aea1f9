package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

func newQueue(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues"},
		Short:   "Look at what waits and what runs",
		Long:    "A lane is a queue and a kind: a worker takes runs of the lanes that it declares.",
		Example: "  daybook queue list\n  daybook queue stats --queue mail",
	}, newQueueList(a), newQueueStats(a))
}

func newQueueList(a *app) *cobra.Command {
	var out format
	var asOf string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the lanes in which something waits or runs, or that a worker declares",
		Long: `DUE could run now, LATER waits for its time, CLAIMED is on its way to a worker. Slots are
those of the lane's workers, which share them among all their lanes.

With --as-of, the lanes as they stood then, from the log. Workers are not on record; a run
that waited for a place under a limit counts as due.`,
		Example: "  daybook queue list\n  daybook queue list --as-of '2026-11-24 09:14'\n  daybook queue list -o json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				at, err := a.optionalWhen("as-of", asOf, -1)
				if err != nil {
					return err
				}
				var lanes []projections.QueueStats
				if at.IsZero() {
					lanes, err = c.Queues(ctx)
				} else {
					lanes, err = c.QueuesAsOf(ctx, at)
				}
				if err != nil {
					return err
				}
				if lanes == nil {
					lanes = []projections.QueueStats{}
				}
				l := a.laneList(lanes)
				if !at.IsZero() { // workers are not on record
					l.empty = "nothing waited, and nothing ran"
					l.columns = slices.DeleteFunc(l.columns, func(c column[projections.QueueStats]) bool { return c.title == "WORKERS" || c.title == "SLOTS" })
				}
				return write(a, out, l)
			})
		},
	}
	outputFlag(cmd, &out, asTable)
	asOfFlag(cmd, &asOf)
	return cmd
}

func (a *app) laneList(lanes []projections.QueueStats) list[projections.QueueStats] {
	type lane = projections.QueueStats
	number := func(f func(lane) int) func(lane) string {
		return func(l lane) string { return strconv.Itoa(f(l)) }
	}
	return list[lane]{
		items: lanes,
		whole: map[string]any{"queues": lanes},
		id:    func(l lane) string { return l.Queue + "/" + l.Kind },
		empty: "nothing waits, nothing runs, and no worker is there",
		columns: []column[lane]{
			{title: "QUEUE", text: func(l lane) string { return l.Queue }},
			{title: "KIND", text: func(l lane) string { return l.Kind }},
			{title: "DUE", text: number(func(l lane) int { return l.Due })},
			{title: "OLDEST", text: func(l lane) string {
				if l.Due == 0 {
					return ""
				}
				return rough(l.OldestWait.Std())
			}},
			{title: "LATER", text: number(func(l lane) int { return l.NotDue })},
			{title: "CLAIMED", text: number(func(l lane) int { return l.Claimed })},
			{title: "RUNNING", text: number(func(l lane) int { return l.Running })},
			{title: "WORKERS", text: number(func(l lane) int { return l.Workers })},
			{title: "SLOTS", text: number(func(l lane) int { return l.Slots })},
			{title: "SINCE", wide: true, text: func(l lane) string { return a.clockOr(l.OldestReadyAt, "") }},
		},
	}
}

func newWorkerList(a *app) *cobra.Command {
	var out format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the workers that were heard of lately",
		Long:    "A worker speaks every five seconds; one that was silent for fifteen is not listed.",
		Example: "  daybook worker list\n  daybook worker list -o wide",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				workers, err := c.Workers(ctx)
				if err != nil {
					return err
				}
				return write(a, out, a.workerList(workers))
			})
		},
	}
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) workerList(workers []client.Worker) list[client.Worker] {
	return list[client.Worker]{
		items: workers,
		whole: map[string]any{"workers": workers},
		id:    func(w client.Worker) string { return w.ID },
		empty: "no worker was heard of in the last 15s: 'daybook worker --allow-exec' starts one",
		columns: []column[client.Worker]{
			{title: "WORKER", text: func(w client.Worker) string { return w.ID }},
			{title: "HOST", text: func(w client.Worker) string { return w.Host }},
			{title: "VERSION", wide: true, text: func(w client.Worker) string { return w.Version }},
			{title: "RUNNING", text: func(w client.Worker) string { return strconv.Itoa(w.Running) }},
			{title: "SLOTS", text: func(w client.Worker) string {
				if w.Slots == 0 {
					return "draining"
				}
				return strconv.Itoa(w.Slots)
			}},
			{title: "SINCE", text: func(w client.Worker) string { return a.clock(w.FirstSeen) }},
			{title: "SEEN", wide: true, text: func(w client.Worker) string { return a.clock(w.SeenAt) }},
			{title: "LANES", text: func(w client.Worker) string {
				var lanes []string
				for _, l := range w.Lanes {
					lanes = append(lanes, l.Queue+"/"+l.Kind)
				}
				return strings.Join(lanes, " ")
			}},
		},
	}
}
