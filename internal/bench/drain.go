package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// DrainOptions say what is drained.
type DrainOptions struct {
	Options
	Runs     int
	Rounds   int      // of each variant, in turn
	Variants []string // of Variants; empty: the standard ones
	Version  string
}

// Variants are what may run beside a drain.
var Variants = []string{"plain", "feed", "projections", "all"}

func variantNamed(name string) (variant, bool) {
	v := variant{name: name}
	switch name {
	case "plain":
	case "feed":
		v.feed = true
	case "projections":
		v.projections = true
	case "all":
		v.feed, v.projections = true, true
	default:
		return v, false
	}
	return v, true
}

// Drain loads runs that are due and do nothing, lets a worker go, and takes the
// time until the last of them is finished.
func Drain(ctx context.Context, o DrainOptions) (rep Report, err error) {
	l, err := openLab(ctx, o.Options)
	if err != nil {
		return rep, err
	}
	defer l.close()
	if len(o.Variants) == 0 {
		o.Variants = []string{"plain", "feed", "all"}
	}
	found := make([][]Result, len(o.Variants))
	for round := range o.Rounds {
		for i, name := range o.Variants {
			v, ok := variantNamed(name)
			if !ok {
				return rep, fmt.Errorf("variant %q: want one of %q", name, Variants)
			}
			o.Say("round %d of %d: %s", round+1, o.Rounds, name)
			res, err := l.drain(ctx, v, o.Runs)
			if err != nil {
				return rep, fmt.Errorf("drain (%s): %w", name, err)
			}
			found[i] = append(found[i], res)
		}
	}
	rep = l.report("drain", o.Rounds, o.Version)
	for _, results := range found {
		rep.Results = append(rep.Results, median(results))
	}
	rep.Result = rep.Results[0]
	return rep, nil
}

// median is the middle result, with the rates of all in their order.
func median(results []Result) Result {
	rates := make([]float64, len(results))
	for i, r := range results {
		rates[i] = r.RunsPerSecond
	}
	sorted := slices.Clone(results)
	slices.SortFunc(sorted, func(a, b Result) int { return int(a.RunsPerSecond - b.RunsPerSecond) })
	m := sorted[(len(sorted)-1)/2]
	if len(rates) > 1 {
		m.Rounds = rates
	}
	return m
}

func (l *lab) drain(ctx context.Context, v variant, n int) (res Result, err error) {
	r, err := l.newRig(ctx, v)
	if err != nil {
		return res, err
	}
	defer r.close()
	if _, err := r.preload(ctx, n, time.Time{}); err != nil {
		return res, err
	}
	if err := r.until(ctx, time.Minute, "feed and projections to catch up with what was loaded", r.caughtUp); err != nil {
		return res, err
	}
	if err := r.settle(ctx); err != nil {
		return res, err
	}
	if err := r.startWorker(ctx); err != nil {
		return res, err
	}
	return r.drainLoaded(ctx, n)
}

// drainLoaded lets the worker go.
func (r *rig) drainLoaded(ctx context.Context, n int) (res Result, err error) {
	from, err := r.read(ctx)
	if err != nil {
		return res, err
	}
	if err := r.worker.tell("go"); err != nil {
		return res, err
	}
	done, err := r.follow(ctx, n, from.at)
	if err != nil {
		return res, err
	}
	// The worker has executed everything; the engine has to record the last outcomes.
	if err := r.until(ctx, time.Minute, "the last outcomes", r.idle); err != nil {
		return res, err
	}
	to, err := r.read(ctx)
	if err != nil {
		return res, err
	}
	took := to.at.Sub(from.at).Seconds()
	res = Result{Name: r.name, Feed: &r.feed, Projections: &r.projections, Runs: n, Seconds: round(took, 3), RunsPerSecond: round(float64(n)/took, 0), Duplicates: &done.Duplicates}
	if r.feed || r.projections {
		if err := r.until(ctx, 2*time.Minute, "feed and projections to catch up", r.caughtUp); err != nil {
			return res, err
		}
		if to, err = r.read(ctx); err != nil { // what a run costs includes what comes after it
			return res, err
		}
		res.CaughtUp = round(float64(n)/to.at.Sub(from.at).Seconds(), 0)
	}
	r.fill(&res, from, to, n)
	return res, r.check(ctx, n)
}

// idle reports whether no run is left.
func (r *rig) idle(ctx context.Context) (idle bool, err error) {
	err = r.watch.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM claims) AND NOT EXISTS (SELECT FROM due_runs WHERE ready_at <= now())").Scan(&idle)
	return idle, err
}

// check counts what the log says: a rate of runs that were not recorded is none.
func (r *rig) check(ctx context.Context, n int) error {
	var started, succeeded int
	err := r.watch.QueryRow(ctx, `SELECT count(*) FILTER (WHERE type = 'RunStarted'), count(*) FILTER (WHERE type = 'RunSucceeded')
		FROM events WHERE category = 'run' AND actor <> 'bench'`).Scan(&started, &succeeded)
	if err != nil {
		return err
	}
	if succeeded != n || started < n {
		return fmt.Errorf("the log has %d starts and %d successes of %d runs", started, succeeded, n)
	}
	return nil
}

// follow waits until the worker has executed n runs.
func (r *rig) follow(ctx context.Context, n int, began time.Time) (p Progress, err error) {
	for p.Executed-p.Duplicates < n {
		before := p
		err := within(ctx, 30*time.Second, func(ctx context.Context) error { return r.worker.hear(ctx, &p) })
		if err == nil {
			err = r.alive()
		}
		if err != nil {
			return p, fmt.Errorf("after %d of %d runs: %w%s", before.Executed, n, err, r.tails())
		}
		r.o.Say("%s: %d of %d runs, %.0f a second", r.name, p.Executed, n, float64(p.Executed)/time.Since(began).Seconds())
	}
	return p, nil
}

// DrainSlots is how many runs the worker of a drain takes at a time: two full
// transactions, so that one gathers while the other is under way.
const DrainSlots = 4000

// IsVariant reports whether there is a variant of the name.
func IsVariant(name string) bool {
	_, ok := variantNamed(name)
	return ok
}
