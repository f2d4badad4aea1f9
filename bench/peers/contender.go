package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// contender is what takes part.
type contender struct {
	name     string
	version  string // read from what runs
	settings string
	source   string // where the settings are from
	keeps    string // what is left of a finished job: a rate says little without
	onNode   bool
	run      func(ctx context.Context, b board, jobs int) (outcome, error)
}

// board is what all play on.
type board struct {
	dsn     string // of a superuser, without a database of anybody's
	daybook string // the program
	self    string // this program
	node    string // empty: no peers that run on Node
}

// outcome is what a contender did.
type outcome struct {
	Jobs          int     `json:"jobs"`
	Seconds       float64 `json:"seconds"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	LoadPerSecond float64 `json:"load_per_second,omitempty"`
	Database      float64 `json:"database_us_per_job"` // processor time
	Clients       float64 `json:"clients_us_per_job"`  // of everything but the database
	WAL           int64   `json:"wal_bytes_per_job"`
	Version       string  `json:"version,omitempty"`
}

func contenders() []contender {
	return []contender{
		{
			name:     "daybook",
			settings: "4,000 slots, feed and projections off",
			source:   "daybook bench drain --variants plain",
			keeps:    "four events a run, each start fenced; a broker and a worker process in the path",
			run: func(ctx context.Context, b board, jobs int) (outcome, error) {
				return drainDaybook(ctx, b, jobs, "plain")
			},
		},
		{
			name:     "river",
			settings: "MaxWorkers 2000, FetchCooldown 2 ms, FetchPollInterval 20 ms, InsertManyFast by 5,000, 10 connections, GOGC=400",
			source:   "riverbench.go of the module, which 'river bench' runs",
			keeps:    "the job's row",
			run:      child("river"),
		},
		{
			name:     "gue",
			settings: "16 workers, RunAtPollStrategy, poll 10 ms, EnqueueBatch by 1,000",
			source:   "the poll strategy that its README names for a queue without priorities; the best of 4, 16 and 50 workers",
			keeps:    "nothing",
			run:      child("gue"),
		},
		{
			name:     "graphile-worker",
			settings: "2 processes, concurrentJobs 24, localQueue 500, completeJobBatchDelay 0, addJobs by 10,000",
			source:   "the preset of its performance page",
			keeps:    "nothing",
			onNode:   true,
			run:      onNode("graphile"),
		},
		{
			name:     "pg-boss",
			settings: "fetch(5000) and complete(ids) in 2 loops, insert by 10,000, 10 connections",
			source:   "its API at its fastest: without handlers, so more than its workers reach",
			keeps:    "the job's row",
			onNode:   true,
			run:      onNode("pgboss"),
		},
	}
}

// child runs a peer that is a Go library in a process of its own.
func child(name string) func(context.Context, board, int) (outcome, error) {
	return func(ctx context.Context, b board, jobs int) (outcome, error) {
		if name == "gue" {
			jobs = min(jobs, 30_000) // a transaction a job: the rate is the same, the wait is not
		}
		return decode(ctx, exec.CommandContext(ctx, b.self, "drain", name, b.dsn, strconv.Itoa(jobs)))
	}
}

// decode runs a command whose last line of output is its outcome.
func decode(ctx context.Context, cmd *exec.Cmd) (o outcome, err error) {
	var errs bytes.Buffer
	cmd.Stderr, cmd.Env = &errs, append(os.Environ(), "GOGC=400")
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if err != nil {
		return o, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &o); err != nil {
		return o, fmt.Errorf("%s said %q: %w", cmd.Args[0], lines[len(lines)-1], err)
	}
	return o, nil
}

func drainDaybook(ctx context.Context, b board, jobs int, variant string) (o outcome, err error) {
	cmd := exec.CommandContext(ctx, b.daybook, "bench", "drain", "--postgres", b.dsn, "--runs", strconv.Itoa(jobs), "--variants", variant, "-o", "jsonl")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	if err != nil {
		return o, fmt.Errorf("daybook bench drain: %w\n%s", err, errs.String())
	}
	var r struct {
		Runs     int                                                `json:"runs"`
		Seconds  float64                                            `json:"seconds"`
		Rate     float64                                            `json:"runs_per_second"`
		WAL      int64                                              `json:"wal_bytes_per_run"`
		CPU      struct{ Database, Engine, Broker, Worker float64 } `json:"cpu_us_per_run"`
		Settings struct{ Daybook string }
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return o, fmt.Errorf("daybook bench drain: %w", err)
	}
	return outcome{Jobs: r.Runs, Seconds: r.Seconds, JobsPerSecond: r.Rate, WAL: r.WAL, Database: r.CPU.Database,
		Clients: r.CPU.Engine + r.CPU.Broker + r.CPU.Worker, Version: r.Settings.Daybook}, nil
}
