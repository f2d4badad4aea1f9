package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/bench"
)

func newBenchLatency(a *app) *cobra.Command {
	var b benchFlags
	o := bench.LatencyOptions{Version: version()}
	var slots int
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "How soon a run begins",
		Long: `Measures the time until the worker's handler has a run: from the instant of its schedule
(due: --rate jobs that fire every second, their instants spread evenly), or from before it
was asked for (request: each by a call of its own over NATS, at that rate however long the
others take). The first eighth of the runs is left out.`,
		Example: `  daybook bench latency
  daybook bench latency --kind request --rates 100,1000 -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.ContainsFunc(o.Rates, func(r int) bool { return r < 1 }) || o.Seconds < 1 || slots < 1 {
				return usage("--rates, --seconds and --slots: want at least 1")
			}
			for _, k := range o.Kinds {
				if !slices.Contains(bench.LatencyKinds, k) {
					return usage("--kind %s: want some of %s", k, strings.Join(bench.LatencyKinds, ","))
				}
			}
			return a.bench(&b, slots, func(shared bench.Options) (bench.Report, error) {
				o.Options = shared
				return bench.Latency(cmd.Context(), o)
			})
		},
	}
	b.add(cmd)
	f := cmd.Flags()
	f.IntSliceVar(&o.Rates, "rates", []int{10, 100, 1000, 2000}, "runs a second")
	f.IntVar(&o.Seconds, "seconds", 8, "how long each rate is kept up")
	f.StringSliceVar(&o.Kinds, "kind", bench.LatencyKinds, "from when: "+strings.Join(bench.LatencyKinds, ", "))
	f.BoolVar(&o.Feed, "feed", false, "with event feed and projections")
	f.IntVar(&slots, "slots", 500, "slots of the worker")
	return cmd
}

func newBenchEnqueue(a *app) *cobra.Command {
	var b benchFlags
	o := bench.EnqueueOptions{Version: version()}
	cmd := &cobra.Command{
		Use:   "enqueue",
		Short: "How many runs a second can be asked for",
		Long: `Asks for runs, so many a request, and counts those whose key, event and due row are
committed. It asks the log itself: what NATS or HTTP add is not in it. The times are of a
request.`,
		Example: `  daybook bench enqueue
  daybook bench enqueue --batches 1,2000 --clients 8`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.ContainsFunc(o.Batches, func(r int) bool { return r < 1 }) || o.Seconds < 1 || o.Clients < 1 {
				return usage("--batches, --clients and --seconds: want at least 1")
			}
			return a.bench(&b, 0, func(shared bench.Options) (bench.Report, error) {
				o.Options = shared
				return bench.Enqueue(cmd.Context(), o)
			})
		},
	}
	b.add(cmd)
	f := cmd.Flags()
	f.IntSliceVar(&o.Batches, "batches", []int{1, 100, 1000}, "runs a request")
	f.IntVar(&o.Clients, "clients", 2, "how many ask at the same time")
	f.IntVar(&o.Seconds, "seconds", 5, "how long each is kept up")
	return cmd
}
