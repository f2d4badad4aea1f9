package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker"
)

// LatencyOptions say how often runs begin.
type LatencyOptions struct {
	Options
	Rates   []int // runs a second
	Seconds int   // of each
	Kinds   []string
	Feed    bool
	Version string
}

// LatencyKinds are what a run's lateness is counted from: the instant of its
// schedule, which an engine has to notice first, or the moment before it was
// asked for.
var LatencyKinds = []string{"due", "request"}

// Latency measures how long it takes from there until the handler has the run.
func Latency(ctx context.Context, o LatencyOptions) (rep Report, err error) {
	l, err := openLab(ctx, o.Options)
	if err != nil {
		return rep, err
	}
	defer l.close()
	var results []Result
	for _, kind := range o.Kinds {
		for _, rate := range o.Rates {
			name := kind + " → start"
			o.Say("%s at %d a second", name, rate)
			v := variant{name: name, feed: o.Feed, projections: o.Feed}
			res, err := l.latency(ctx, v, kind, rate, o.Seconds)
			if err != nil {
				return rep, fmt.Errorf("%s at %d a second: %w", name, rate, err)
			}
			results = append(results, res)
		}
	}
	rep = l.report("latency", 1, o.Version)
	rep.Results, rep.Result = results, results[0]
	return rep, nil
}

func (l *lab) latency(ctx context.Context, v variant, kind string, rate, seconds int) (res Result, err error) {
	r, err := l.newRig(ctx, v)
	if err != nil {
		return res, err
	}
	defer r.close()
	if err := r.startWorker(ctx); err != nil {
		return res, err
	}
	if err := r.worker.tell("go"); err != nil {
		return res, err
	}
	err = r.until(ctx, 15*time.Second, "the worker to be known", func(ctx context.Context) (bool, error) {
		workers, err := r.store.Workers(ctx)
		return len(workers) > 0, err
	})
	if err != nil {
		return res, err
	}
	offer := r.schedule
	if kind == "request" {
		offer = r.request
	}
	from, err := r.read(ctx)
	if err != nil {
		return res, err
	}
	offered, err := offer(ctx, rate, seconds)
	if err != nil {
		return res, err
	}
	done, err := r.follow(ctx, offered, from.at)
	if err != nil {
		return res, err
	}
	to, err := r.read(ctx)
	if err != nil {
		return res, err
	}
	if err := r.worker.tell("report"); err != nil {
		return res, err
	}
	for done.Latency == nil {
		if err := within(ctx, 10*time.Second, func(ctx context.Context) error { return r.worker.hear(ctx, &done) }); err != nil {
			return res, err
		}
	}
	q := done.Latency
	took := to.at.Sub(from.at).Seconds()
	res = Result{Name: r.name, Rate: float64(rate), Runs: done.Executed - done.Duplicates, Seconds: round(took, 3), P50: q.P50, P99: q.P99, P999: q.P999, Max: q.Max,
		Duplicates: &done.Duplicates}
	r.fill(&res, from, to, res.Runs)
	return res, nil
}

// schedule makes jobs that fire together at the rate, their instants spread
// evenly, and gives the number of runs that they come to at least.
func (r *rig) schedule(ctx context.Context, rate, seconds int) (int, error) {
	now, err := r.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	first := now.Truncate(time.Second).Add(3 * time.Second)
	end := first.Add(time.Duration(seconds) * time.Second)
	specs := make([]domain.JobSpec, rate)
	for i := range specs {
		s := noopJob()
		start := first.Add(time.Duration(i) * time.Second / time.Duration(rate)).Truncate(time.Microsecond)
		last := end
		s.Name, s.Schedules, s.StartAt, s.EndAt = fmt.Sprintf("%s-%d", jobName, i), []string{"@every 1s"}, &start, &last
		specs[i] = s
	}
	for part := range slices.Chunk(specs, 500) {
		if err := r.apply(ctx, part...); err != nil {
			return 0, err
		}
	}
	if now, err := r.store.Now(ctx); err != nil || now.After(first) {
		return 0, fmt.Errorf("making %d jobs took too long (%w)", rate, err)
	}
	return rate * seconds, nil
}

// request asks for runs at the rate, each by a call of its own, however long the
// others take.
func (r *rig) request(ctx context.Context, rate, seconds int) (int, error) {
	if err := r.apply(ctx, noopJob()); err != nil {
		return 0, err
	}
	client, err := worker.NewClient(worker.ClientConfig{NATSURL: r.nats, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if err := r.warm(ctx, client); err != nil {
		return 0, err
	}
	n := rate * seconds
	var calls sync.WaitGroup
	var mu sync.Mutex
	var failed error
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if d := time.Until(due); d > 0 {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		calls.Go(func() {
			if _, err := worker.Enqueue(ctx, client, jobName, arguments{Num: i, At: time.Now().UnixNano()}); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	calls.Wait()
	return n + warmRuns, failed
}

// warmRuns are asked for before anything is measured.
const warmRuns = 5

func (r *rig) warm(ctx context.Context, client *worker.Client) error {
	for range warmRuns {
		if _, err := worker.Enqueue(ctx, client, jobName, arguments{At: time.Now().UnixNano()}); err != nil {
			return err
		}
	}
	return nil
}

// EnqueueOptions say how runs are asked for.
type EnqueueOptions struct {
	Options
	Batches []int // runs a request
	Clients int   // that ask at the same time
	Seconds int   // of each
	Version string
}

// Enqueue measures how many runs a second can be asked for: each has its key, its
// event and its due row committed when the caller hears of it.
func Enqueue(ctx context.Context, o EnqueueOptions) (rep Report, err error) {
	l, err := openLab(ctx, o.Options)
	if err != nil {
		return rep, err
	}
	defer l.close()
	var results []Result
	for _, batch := range o.Batches {
		o.Say("%d runs a request", batch)
		res, err := l.enqueue(ctx, batch, o.Clients, time.Duration(o.Seconds)*time.Second)
		if err != nil {
			return rep, fmt.Errorf("enqueue by %d: %w", batch, err)
		}
		results = append(results, res)
	}
	rep = l.report("enqueue", 1, o.Version)
	rep.Results, rep.Result = results, results[len(results)-1]
	return rep, nil
}

func (l *lab) enqueue(ctx context.Context, batch, clients int, length time.Duration) (res Result, err error) {
	r, err := l.newRig(ctx, variant{name: "enqueue"})
	if err != nil {
		return res, err
	}
	defer r.close()
	if err := r.apply(ctx, noopJob()); err != nil {
		return res, err
	}
	store, err := eventstore.Open(ctx, eventstore.Config{DSN: edit(r.db, "", "daybook_engine"), OpsConns: 1, LoopConns: clients, Actor: "bench"})
	if err != nil {
		return res, err
	}
	defer store.Close()
	from, err := r.read(ctx)
	if err != nil {
		return res, err
	}
	own := processor(os.Getpid())
	var mu sync.Mutex
	var waits []time.Duration
	var failed error
	total := 0
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for time.Since(from.at) < length && ctx.Err() == nil {
				requests := make([]eventstore.RunRequest, batch)
				for i := range requests {
					requests[i] = eventstore.RunRequest{Job: jobName, Key: uuid.NewString(), Args: json.RawMessage(`{"num":1}`)}
				}
				began := time.Now()
				got, err := store.Request(ctx, requests)
				wait := time.Since(began)
				mu.Lock()
				for _, g := range got {
					if g.Err != nil {
						err = g.Err
					}
				}
				if err != nil {
					failed = err
				}
				total += len(got)
				waits = append(waits, wait)
				l.o.Say("by %d: %d runs", batch, total)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	asking.Wait()
	if failed != nil || ctx.Err() != nil {
		return res, errors.Join(failed, ctx.Err())
	}
	to, err := r.read(ctx)
	if err != nil {
		return res, err
	}
	q := quantiles(waits)
	took := to.at.Sub(from.at).Seconds()
	res = Result{Name: "enqueue", Batch: batch, Runs: total, Seconds: round(took, 3), RunsPerSecond: round(float64(total)/took, 0), P50: q.P50, P99: q.P99, P999: q.P999, Max: q.Max}
	r.fill(&res, from, to, total)
	if c := res.CPU; c != nil { // what the engine would use to answer the same calls is used here
		asking := round(float64((processor(os.Getpid())-own).Nanoseconds())/1000/float64(total), 1)
		c.Engine, c.Total, c.Other = round(c.Engine+asking, 1), round(c.Total+asking, 1), round(max(0, c.Other-asking), 1)
	}
	return res, nil
}
