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
  daybook bench enqueue --batches 500 --clients 8`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.ContainsFunc(o.Batches, func(r int) bool { return r < 1 }) || o.Seconds < 1 || o.Clients < 1 {
				return usage("--batches, --clients and --seconds: want at least 1")
			}
			tradeMemory() // the asking is an engine's part
			return a.bench(&b, 0, func(shared bench.Options) (bench.Report, error) {
				o.Options = shared
				return bench.Enqueue(cmd.Context(), o)
			})
		},
	}
	b.add(cmd)
	f := cmd.Flags()
	f.IntSliceVar(&o.Batches, "batches", []int{1, 100, 2000}, "runs a request")
	f.IntVar(&o.Clients, "clients", 4, "how many ask at the same time")
	f.IntVar(&o.Seconds, "seconds", 5, "how long each is kept up")
	return cmd
}

func newBenchClaim(a *app) *cobra.Command {
	var b benchFlags
	o := bench.ClaimOptions{Version: version()}
	cmd := &cobra.Command{
		Use:   "claim",
		Short: "What ways of picking due work give, and which pick it twice",
		Long: `Lets several claimers pick rows, by five ways: on a table with a state column select, then
update; select for update; an advisory lock; skip locked; and by moving rows, as Daybook
does. Counts rows that more than one claimer believed to be its own. It shows the ways
only: no history, no broker.`,
		Example: `  daybook bench claim
  daybook bench claim --rows 20000 --claimers 1,4 -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.ContainsFunc(o.Claimers, func(n int) bool { return n < 1 }) || o.Rows < 1 || o.Batch < 1 {
				return usage("--claimers, --rows and --batch: want at least 1")
			}
			return a.bench(&b, 0, func(shared bench.Options) (bench.Report, error) {
				o.Options = shared
				return bench.Claim(cmd.Context(), o)
			})
		},
	}
	b.add(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Rows, "rows", 50_000, "rows to pick")
	f.IntVar(&o.Batch, "batch", 100, "rows a claim")
	f.IntSliceVar(&o.Claimers, "claimers", []int{1, 2, 4, 8}, "how many pick at the same time")
	return cmd
}

func newBenchScale(a *app) *cobra.Command {
	var b benchFlags
	o := bench.ScaleOptions{Version: version()}
	var slots int
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "What old and future runs, and an open transaction, cost",
		Long: `Claims runs without executing them, and drains as many, beside nothing, finished runs with
their history, runs that wait for tomorrow, and a transaction that stays open and keeps
the database from forgetting. 10,000,000 finished runs take 20 GB and some minutes to make.`,
		Example: `  daybook bench scale
  daybook bench scale --finished 1000000,10000000 --open-for 5m`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Runs < 1 || o.Rounds < 1 || slots < 1 {
				return usage("--runs, --rounds and --slots: want at least 1")
			}
			return a.bench(&b, slots, func(shared bench.Options) (bench.Report, error) {
				o.Options = shared
				return bench.Scale(cmd.Context(), o)
			})
		},
	}
	b.add(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Runs, "runs", 100_000, "runs to claim, and to drain")
	f.IntVar(&o.Rounds, "rounds", 1, "rounds; the median one is shown")
	f.IntSliceVar(&o.Finished, "finished", []int{1_000_000}, "finished runs beside")
	f.IntSliceVar(&o.Future, "future", []int{10_000, 1_000_000}, "future runs beside")
	f.BoolVar(&o.Open, "open", true, "with an open transaction, too")
	f.DurationVar(&o.OpenFor, "open-for", 0, "claim runs for so long beside the open transaction before measuring")
	f.IntVar(&slots, "slots", bench.DrainSlots, "slots of the worker")
	return cmd
}
