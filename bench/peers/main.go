package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/daybookhq/daybook/internal/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == "drain" {
		return drain(ctx, args[1], args[2], args[3])
	}
	f := flag.NewFlagSet("peers", flag.ExitOnError)
	var b board
	f.StringVar(&b.daybook, "daybook", "../../bin/daybook", "the program")
	f.StringVar(&b.node, "node", "", "Node 22 or newer with node/node_modules installed, for graphile-worker and pg-boss; empty: without them")
	rounds := f.Int("rounds", 3, "rounds that count")
	jobs := f.Int("jobs", 100_000, "jobs of each contender and round")
	only := f.String("only", "", "these contenders alone, separated by commas")
	dir := f.String("dir", "", "where the PostgreSQL keeps its files; empty: the directory for temporary files")
	output := f.String("o", "table", "table or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	all := contenders()
	if *only != "" {
		names := strings.Split(*only, ",")
		all = slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(names, c.name) })
	}
	if b.node == "" {
		all = slices.DeleteFunc(all, func(c contender) bool { return c.onNode })
	}
	server, err := bench.StartServer(ctx, *dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	b.dsn = server.DSN
	t := &tournament{board: b, all: all, jobs: *jobs, results: map[string][]outcome{}}
	err = t.play(ctx, *rounds)
	if err != nil && len(t.results) == 0 {
		return err
	}
	if *output == "json" {
		return errors.Join(t.json(server), err)
	}
	t.table(server)
	return err
}

// drain is the process of one peer.
func drain(ctx context.Context, name, dsn, jobs string) error {
	n, err := strconv.Atoi(jobs)
	if err != nil {
		return err
	}
	var o outcome
	switch name {
	case "river":
		o, err = drainRiver(ctx, dsn, n)
	case "gue":
		o, err = drainGue(ctx, dsn, n)
	default:
		err = fmt.Errorf("no peer %q", name)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

// tournament is rounds of all contenders in turn.
type tournament struct {
	board
	all     []contender
	jobs    int
	results map[string][]outcome // of the rounds that count
	void    int
}

// disturbed is by how much a peer may stay under its best round.
const disturbed = 0.85

// play gathers as many rounds as are asked for. On a machine that has too few quiet
// ones it gathers all that were played, and its error says so.
func (t *tournament) play(ctx context.Context, rounds int) error {
	best := map[string]float64{}
	var played []map[string]outcome
	valid := func() (n int) {
		for _, r := range played {
			if !t.isVoid(r, best) {
				n++
			}
		}
		return n
	}
	n := 0
	for ; valid() < rounds && n < 3*rounds; n++ {
		round := map[string]outcome{}
		for i := range t.all {
			c := t.all[(i+n)%len(t.all)] // nobody is always first
			fmt.Fprintf(os.Stderr, "round %d: %s …", n+1, c.name)
			limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
			o, err := c.run(limited, t.board, t.jobs)
			cancel()
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Fprintf(os.Stderr, " %.0f jobs/s\n", o.JobsPerSecond)
			round[c.name] = o
			best[c.name] = max(best[c.name], o.JobsPerSecond)
		}
		played = append(played, round)
	}
	quiet := valid() >= rounds
	for _, r := range played {
		if t.isVoid(r, best) {
			t.void++
			if quiet {
				continue
			}
		}
		for name, o := range r {
			t.results[name] = append(t.results[name], o)
		}
	}
	if !quiet {
		return fmt.Errorf("%d of %d rounds were disturbed (a peer more than 15 %% under its best), and are shown all the same: the machine does other work", t.void, n)
	}
	return nil
}

// isVoid judges by the peers alone: Daybook's own bad round counts.
func (t *tournament) isVoid(round map[string]outcome, best map[string]float64) bool {
	for name, o := range round {
		if !strings.HasPrefix(name, "daybook") && o.JobsPerSecond < disturbed*best[name] {
			return true
		}
	}
	return false
}

func median(outcomes []outcome) outcome {
	sorted := slices.SortedFunc(slices.Values(outcomes), func(a, b outcome) int { return int(a.JobsPerSecond - b.JobsPerSecond) })
	return sorted[(len(sorted)-1)/2]
}

// ratio is the median, over the rounds, of ours by theirs.
func (t *tournament) ratio(peer string) float64 {
	ours, theirs := t.results["daybook"], t.results[peer]
	if len(ours) == 0 || len(theirs) == 0 {
		return 0
	}
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i].JobsPerSecond / theirs[i].JobsPerSecond
	}
	slices.Sort(ratios)
	return ratios[(len(ratios)-1)/2]
}

func (t *tournament) table(s *bench.Server) {
	fmt.Println(s.Machine.Line())
	fmt.Printf("fsync %s, synchronous_commit %s, shared_buffers %s, max_wal_size %s; %d rounds, %d void\n\n",
		s.Settings["fsync"], s.Settings["synchronous_commit"], s.Settings["shared_buffers"], s.Settings["max_wal_size"], len(t.results[t.all[0].name]), t.void)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tjobs/s (median)\teach round\tdaybook by it\tµs/job database + clients\tWAL B/job\tload/s\tkeeps")
	for _, c := range t.all {
		m := median(t.results[c.name])
		each, ratio := "", "-"
		for _, o := range t.results[c.name] {
			each += fmt.Sprintf(" %.0f", o.JobsPerSecond)
		}
		if c.name != "daybook" && t.ratio(c.name) > 0 {
			ratio = fmt.Sprintf("%.2f", t.ratio(c.name))
		}
		load := "-"
		if m.LoadPerSecond > 0 {
			load = fmt.Sprintf("%.0f", m.LoadPerSecond)
		}
		fmt.Fprintf(w, "%s %s\t%.0f\t%s\t%s\t%.0f + %.0f\t%d\t%s\t%s\n", c.name, m.Version, m.JobsPerSecond, each, ratio, m.Database, m.Clients, m.WAL, load, c.keeps)
	}
	_ = w.Flush()
	fmt.Println()
	for _, c := range t.all {
		fmt.Printf("%s: %s (%s)\n", c.name, c.settings, c.source)
	}
}

func (t *tournament) json(s *bench.Server) error {
	type row struct {
		Name     string    `json:"name"`
		Median   outcome   `json:"median"`
		Rounds   []outcome `json:"rounds"`
		Ratio    float64   `json:"daybook_by_it,omitempty"`
		Settings string    `json:"settings"`
		Source   string    `json:"source"`
		Keeps    string    `json:"keeps"`
	}
	var rows []row
	for _, c := range t.all {
		r := row{c.name, median(t.results[c.name]), t.results[c.name], t.ratio(c.name), c.settings, c.source, c.keeps}
		if c.name == "daybook" {
			r.Ratio = 0
		}
		rows = append(rows, r)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"machine": s.Machine, "postgresql": s.Settings, "void_rounds": t.void, "contenders": rows})
}
