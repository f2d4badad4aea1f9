package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type riverArgs struct {
	Num int `json:"num"`
}

func (riverArgs) Kind() string { return "benchmark" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

func (riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return nil }

func drainRiver(ctx context.Context, dsn string, jobs int) (o outcome, err error) {
	pool, err := fresh(ctx, dsn, "peers_river", 10)
	if err != nil {
		return o, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return o, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return o, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, riverWorker{})
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return o, err
	}
	loading := time.Now()
	for done := 0; done < jobs; {
		batch := make([]river.InsertManyParams, min(5000, jobs-done))
		for i := range batch {
			batch[i].Args = riverArgs{done + i}
		}
		if _, err := client.InsertManyFast(ctx, batch); err != nil {
			return o, err
		}
		done += len(batch)
	}
	load := float64(jobs) / time.Since(loading).Seconds()
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE river_job"); err != nil {
		return o, err
	}
	if _, err := pool.Exec(ctx, "CHECKPOINT"); err != nil {
		return o, err
	}
	completed, cancel := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: jobs + 100, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer cancel()
	m, err := begin(ctx, pool)
	if err != nil {
		return o, err
	}
	if err := client.Start(ctx); err != nil {
		return o, err
	}
	for range jobs {
		select {
		case <-completed:
		case <-ctx.Done():
			return o, context.Cause(ctx)
		}
	}
	if o, err = m.done(ctx, jobs); err != nil {
		return o, err
	}
	o.LoadPerSecond, o.Version = load, versionOf("github.com/riverqueue/river")
	stop, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelStop()
	return o, client.StopAndCancel(stop)
}
