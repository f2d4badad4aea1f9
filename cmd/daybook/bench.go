package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/bench"
)

// benchFlags are what all measurements share.
type benchFlags struct {
	format format
	dir    string
	server string
	pprof  string
}

func (b *benchFlags) add(cmd *cobra.Command) {
	outputFlag(cmd, &b.format, asTable)
	cmd.Flags().StringVar(&b.dir, "dir", "", "where the private PostgreSQL and the broker keep their files meanwhile (default: the directory for temporary files)")
	cmd.Flags().StringVar(&b.server, "postgres", "", "measure on this PostgreSQL, in databases of their own: a superuser's URL; daybook_engine must be able to log in")
	cmd.Flags().StringVar(&b.pprof, "profiles", "", "directory to write processor profiles of engine, broker and worker to (for go tool pprof)")
}

// options also gives what takes the last progress line away.
func (b *benchFlags) options(a *app, slots int) (bench.Options, func(), error) {
	exe, err := os.Executable()
	if err != nil {
		return bench.Options{}, nil, err
	}
	p := a.progress()
	if b.pprof != "" {
		if b.pprof, err = filepath.Abs(b.pprof); err == nil {
			err = os.MkdirAll(b.pprof, 0o755)
		}
	}
	return bench.Options{Exe: exe, Dir: b.dir, Server: b.server, Profiles: b.pprof, Slots: slots, Say: p.say}, p.done, err
}

func newBench(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Daybook on this machine",
		Long: `Measures on a private PostgreSQL that waits for its disk (fsync on), with engine, broker
and worker in processes of their own. History, outbox, JetStream and fenced start are on:
what is measured is what serves.

Each row carries the processor time of every part a run. A rate depends on what else the
machine does meanwhile; the time a run costs hardly does.`,
		Example: `  daybook bench drain`,
	}
	return group(cmd, newBenchDrain(a), newBenchLatency(a), newBenchEnqueue(a), newBenchClaim(a), newBenchScale(a), newBenchPart(a))
}

func newBenchDrain(a *app) *cobra.Command {
	var b benchFlags
	o := bench.DrainOptions{Version: version()}
	var slots int
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "How many runs a second go through",
		Long: `Loads runs that are due and do nothing, lets one worker go, and takes the time until the
last outcome is recorded. Variants: plain (no feed, no projections), feed, projections, all.`,
		Example: `  daybook bench drain
  daybook bench drain --runs 200000 --rounds 3 --variants plain,all -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Runs < 1 || o.Rounds < 1 || slots < 1 {
				return usage("--runs, --rounds and --slots: want at least 1")
			}
			for _, v := range o.Variants {
				if !bench.IsVariant(v) {
					return usage("--variants %s: want some of %s", v, strings.Join(bench.Variants, ","))
				}
			}
			return a.bench(&b, slots, func(shared bench.Options) (bench.Report, error) {
				o.Options = shared
				return bench.Drain(cmd.Context(), o)
			})
		},
	}
	b.add(cmd)
	cmd.Flags().IntVar(&o.Runs, "runs", 100_000, "runs to drain")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 1, "rounds; the median one is shown")
	cmd.Flags().StringSliceVar(&o.Variants, "variants", []string{"plain", "feed", "all"}, "what else runs: "+strings.Join(bench.Variants, ", "))
	cmd.Flags().IntVar(&slots, "slots", bench.DrainSlots, "slots of the worker")
	return cmd
}

// bench measures and writes what was found.
func (a *app) bench(b *benchFlags, slots int, measure func(bench.Options) (bench.Report, error)) error {
	if a.url != "" {
		fmt.Fprintf(a.err, "measuring a system of its own on this machine, not the one at %s\n", a.url)
	}
	shared, done, err := b.options(a, slots)
	if err != nil {
		return err
	}
	rep, err := measure(shared)
	done()
	if err != nil {
		return err
	}
	return a.writeBench(b.format, rep)
}

// writeBench writes figures as JSON, or as a table with the conditions above it.
func (a *app) writeBench(f format, rep bench.Report) error {
	switch {
	case f == asLines:
		return a.writeLine(rep)
	case !f.people():
		return a.writePlainJSON(rep)
	}
	fmt.Fprintln(a.out, rep.Machine.Line())
	var set []string
	for _, name := range []string{"fsync", "synchronous_commit", "shared_buffers", "max_wal_size"} {
		set = append(set, name+" "+rep.Settings.PostgreSQL[name])
	}
	fmt.Fprintf(a.out, "%s; daybook %s\n\n", strings.Join(set, ", "), rep.Settings.Daybook)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	titles, rows := bench.Table(rep)
	fmt.Fprintln(w, strings.Join(titles, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// newBenchPart is what a measurement starts this program as. It ends with its
// standard input, so that nothing outlives the measurement.
func newBenchPart(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "part", Hidden: true, Short: "A process of a measurement"}
	var dir, url, profile string
	slots := 0
	cmd.PersistentFlags().StringVar(&profile, "profile", "", "file for a processor profile")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		if profile == "" {
			return nil
		}
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		return pprof.StartCPUProfile(f)
	}
	cmd.PersistentPostRun = func(*cobra.Command, []string) { pprof.StopCPUProfile() }
	broker := &cobra.Command{Use: "broker", Args: takes(), RunE: func(cmd *cobra.Command, _ []string) error {
		ctx, stop := a.whileFed(cmd.Context())
		defer stop()
		tradeMemory()
		return bench.RunBroker(ctx, dir, a.out, a.newLogger(4))
	}}
	broker.Flags().StringVar(&dir, "dir", "", "store directory")
	worker := &cobra.Command{Use: "worker", Args: takes(), RunE: func(cmd *cobra.Command, _ []string) error {
		tradeMemory() // as 'daybook worker'
		return bench.RunWorker(cmd.Context(), url, slots, a.in, a.out, a.newLogger(4))
	}}
	worker.Flags().StringVar(&url, "nats-url", "", "NATS server")
	worker.Flags().IntVar(&slots, "slots", 0, "runs at a time")
	engine := &cobra.Command{Use: "engine -- FLAGS OF serve", RunE: func(cmd *cobra.Command, args []string) error {
		ctx, stop := a.whileFed(cmd.Context())
		defer stop()
		serve := newServe(a)
		serve.SetArgs(args)
		serve.SilenceErrors, serve.SilenceUsage = true, true
		return serve.ExecuteContext(ctx)
	}}
	cmd.AddCommand(broker, worker, engine)
	return cmd
}

// whileFed is a context that ends with the standard input.
func (a *app) whileFed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		var b [1]byte
		for {
			if _, err := a.in.Read(b[:]); err != nil {
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}
