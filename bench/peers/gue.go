package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

const gueModule = "github.com/vgarvardt/gue/v5"

// gueSchema is the table definition that comes with the module and is not
// compiled into it.
func gueSchema(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", gueModule).Output()
	if err != nil {
		return "", fmt.Errorf("find the source of %s (run this in bench/peers): %w", gueModule, err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "migrations", "schema.sql"))
	return string(b), err
}

func drainGue(ctx context.Context, dsn string, jobs int) (o outcome, err error) {
	const workers = 16
	schema, err := gueSchema(ctx)
	if err != nil {
		return o, err
	}
	pool, err := fresh(ctx, dsn, "peers_gue", workers+2)
	if err != nil {
		return o, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return o, err
	}
	client, err := gue.NewClient(pgxv5.NewConnPool(pool))
	if err != nil {
		return o, err
	}
	loading := time.Now()
	for done := 0; done < jobs; {
		batch := make([]*gue.Job, min(1000, jobs-done))
		for i := range batch {
			batch[i] = &gue.Job{Type: "benchmark", Args: []byte(`{"num":1}`)}
		}
		if err := client.EnqueueBatch(ctx, batch); err != nil {
			return o, err
		}
		done += len(batch)
	}
	load := float64(jobs) / time.Since(loading).Seconds()
	for _, s := range []string{"VACUUM ANALYZE gue_jobs", "CHECKPOINT"} {
		if _, err := pool.Exec(ctx, s); err != nil {
			return o, err
		}
	}
	var done atomic.Int64
	all := make(chan struct{})
	pools, err := gue.NewWorkerPool(client, gue.WorkMap{"benchmark": func(context.Context, *gue.Job) error { return nil }}, workers,
		gue.WithPoolPollInterval(10*time.Millisecond), gue.WithPoolPollStrategy(gue.RunAtPollStrategy),
		gue.WithPoolHooksJobDone(func(context.Context, *gue.Job, error) {
			if done.Add(1) == int64(jobs) {
				close(all)
			}
		}))
	if err != nil {
		return o, err
	}
	m, err := begin(ctx, pool)
	if err != nil {
		return o, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- pools.Run(running) }()
	select {
	case <-all:
	case err = <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		o, err = m.done(ctx, jobs)
	}
	stop()
	o.LoadPerSecond, o.Version = load, versionOf(gueModule)
	return o, err
}
