package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/internal/eventstream"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/migrations"
)

type options struct {
	runs, jobs, count int
	data, json, plans string
	only              string
	seedOnly          bool
	bar               float64
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 1_000_000, "runs in the database")
	flag.IntVar(&o.jobs, "jobs", 1000, "jobs that they are of")
	flag.IntVar(&o.count, "count", 200, "requests of each kind")
	flag.StringVar(&o.data, "data", "", "keep the database in this `directory`, or use the one that is there; empty: one for this time only")
	flag.StringVar(&o.only, "only", "", "measure only the requests whose names this `expression` matches")
	flag.StringVar(&o.json, "json", "", "write the figures to this `file`, too")
	flag.StringVar(&o.plans, "plans", "", "write the plans of all statements to this `file`, too")
	flag.BoolVar(&o.seedOnly, "seed", false, "make the database and measure nothing")
	flag.Float64Var(&o.bar, "bar", 20, "the 99th percentile that every request has to stay below, in `ms`; above it the exit status is 1")
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as 'daybook serve' does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "reads:", err)
		os.Exit(1)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func run(ctx context.Context, o options) (err error) {
	if o.runs < 10*o.jobs || o.jobs < 10 {
		return fmt.Errorf("%d runs of %d jobs: want ten runs of each of ten jobs at least", o.runs, o.jobs)
	}
	dir := o.data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "reads-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server's account must get through
		return err
	}
	server, err := devpg.Start(ctx, devpg.Options{Dir: filepath.Join(dir, "postgres"), Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	owner := server.DSN("postgres")
	if err := migrations.Up(ctx, owner); err != nil {
		return err
	}
	w, err := ensure(ctx, owner, o)
	if err != nil || o.seedOnly {
		return err
	}
	return measure(ctx, owner, w, o)
}

// ensure makes the world unless the database holds it.
func ensure(ctx context.Context, owner string, o options) (*world, error) {
	conn, err := pgx.Connect(ctx, owner)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var runs, jobs int
	var through *time.Time
	if err := conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM run_slots), (SELECT count(*) FROM jobs), (SELECT max(materialized_through) FROM jobs)").Scan(&runs, &jobs, &through); err != nil {
		return nil, err
	}
	switch {
	case runs == o.runs && jobs == o.jobs:
		return newWorld(runs, jobs, *through), catchUp(ctx, owner)
	case runs != 0:
		return nil, fmt.Errorf("%s holds %d runs of %d jobs: choose another directory, or --runs %d --jobs %d", o.data, runs, jobs, runs, jobs)
	}
	w := newWorld(o.runs, o.jobs, time.Now())
	began := time.Now()
	if err := (&seeder{world: w, conn: conn, say: say}).seed(ctx); err != nil {
		return nil, err
	}
	say("the log is there after %s; the projections read it", time.Since(began).Round(time.Second))
	if err := catchUp(ctx, owner); err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE") // as a database is that was not made a minute ago
	return w, err
}

// catchUp brings the read models up to the log, which takes a moment where they
// are already.
func catchUp(ctx context.Context, owner string) error {
	store, err := open(ctx, owner, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	began := time.Now()
	if err := follow(ctx, store); err != nil {
		return err
	}
	say("the read models are up to the log after %s", time.Since(began).Round(time.Second/10))
	return nil
}

// asEngine is the connection string for the application's role.
func asEngine(owner string) (string, error) {
	u, err := url.Parse(owner)
	if err != nil {
		return "", err
	}
	u.User = url.User("daybook_engine")
	return u.String(), nil
}

func open(ctx context.Context, owner string, tracer pgx.QueryTracer) (*eventstore.Store, error) {
	dsn, err := asEngine(owner)
	if err != nil {
		return nil, err
	}
	return eventstore.Open(ctx, eventstore.Config{DSN: dsn, Tracer: tracer, OpsConns: 2, LoopConns: 8})
}

// serve serves the API as an engine does, without the engine.
func serve(ctx context.Context, store *eventstore.Store) (base string, stop func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	h := httpapi.Handler(httpapi.Config{
		Store: store, Gather: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil },
		Events: &eventstream.Handler{Log: store, Deployment: "bench", Problem: httpapi.WriteProblem, Done: ctx.Done()},
	})
	done := make(chan error, 1)
	go func() { done <- httpapi.Serve(ctx, l, h, discard) }()
	return "http://" + l.Addr().String(), func() error { cancel(); return <-done }, nil
}

func measure(ctx context.Context, owner string, w *world, o options) error {
	t := &tracer{}
	store, err := open(ctx, owner, t)
	if err != nil {
		return err
	}
	defer store.Close()
	base, stop, err := serve(ctx, store)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	c := &caller{base: base, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	if err := w.attend(ctx, store); err != nil {
		return err
	}
	if o.plans != "" {
		dsn, err := asEngine(owner)
		if err != nil {
			return err
		}
		if err := c.plans(ctx, dsn, t, w, o.plans); err != nil {
			return err
		}
	}
	attending, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // workers speak every few seconds
		for tick := time.NewTicker(eventstore.Silence / 3); ; {
			select {
			case <-attending.Done():
				tick.Stop()
				return
			case <-tick.C:
				_ = w.attend(attending, store)
			}
		}
	}()
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	requests := slices.DeleteFunc(w.requests(), func(q request) bool { return !only.MatchString(q.name) })
	figures, err := c.measure(ctx, requests, o.count, w, say)
	if err != nil {
		return err
	}
	if err := table(os.Stdout, figures, o.bar); err != nil {
		return err
	}
	if o.json != "" {
		text, err := json.MarshalIndent(map[string]any{"runs": w.runs, "jobs": w.jobs, "requests": figures}, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	above := 0
	for _, f := range figures {
		if f.P99 >= o.bar {
			above++
		}
	}
	if above > 0 {
		return fmt.Errorf("%d of %d requests take %.0f ms or more at the 99th percentile", above, len(figures), o.bar)
	}
	return nil
}
