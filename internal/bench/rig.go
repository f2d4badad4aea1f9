package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// variant is which parts of an engine run.
type variant struct {
	name              string
	feed, projections bool
}

func (v variant) roles() string {
	roles := []string{"engine", "relay", "api"}
	if v.feed {
		roles = append(roles, "feed")
	}
	if v.projections {
		roles = append(roles, "projections")
	}
	return strings.Join(roles, ",")
}

// rig is a whole system: a database of its own, broker, engine and worker.
type rig struct {
	*lab
	variant
	db                     string // connection string of a superuser
	drop                   func()
	store                  *eventstore.Store
	watch                  *pgxpool.Pool // looks on, with the standard settings of a connection
	nats                   string
	broker, engine, worker *part
}

// newRig starts broker and engine on a new database. The worker comes later.
func (l *lab) newRig(ctx context.Context, v variant) (*rig, error) {
	r, err := l.newStore(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// newStore makes the database of a rig whose processes are started later.
func (l *lab) newStore(ctx context.Context, v variant) (r *rig, err error) {
	r = &rig{lab: l, variant: v}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.db, r.drop, err = l.database(ctx, true); err != nil {
		return nil, err
	}
	if r.store, err = eventstore.Open(ctx, eventstore.Config{DSN: r.engineDSN(), OpsConns: 2, LoopConns: 6, Actor: "bench"}); err != nil {
		return nil, err
	}
	r.watch, err = pgxpool.New(ctx, r.db)
	return r, err
}

func (r *rig) engineDSN() string { return edit(r.db, "", "daybook_engine") }

// start starts broker and engine.
func (r *rig) start(ctx context.Context) error {
	dir, err := os.MkdirTemp(r.dir, "nats-")
	if err != nil {
		return err
	}
	if r.broker, err = r.launch("broker", nil, "bench", "part", "broker", "--dir", dir); err != nil {
		return err
	}
	var ready struct{ NATS string }
	if err := within(ctx, 15*time.Second, func(ctx context.Context) error { return r.broker.hear(ctx, &ready) }); err != nil {
		return err
	}
	r.nats = ready.NATS
	r.engine, err = r.launch("engine", nil, "bench", "part", "engine", "--", "--database-url", r.engineDSN(), "--nats-url", r.nats, "--nats-replicas", "1",
		"--http", "127.0.0.1:0", "--log-level", "warn", "--roles", r.roles())
	if err != nil {
		return err
	}
	return r.until(ctx, 30*time.Second, "the engine to start", func(ctx context.Context) (bool, error) {
		engines, err := r.store.Engines(ctx)
		return len(engines) > 0, err
	})
}

func (r *rig) close() {
	r.worker.stop()
	r.engine.stop()
	r.broker.stop()
	if r.watch != nil {
		r.watch.Close()
	}
	if r.store != nil {
		r.store.Close()
	}
	if r.drop != nil {
		r.drop()
	}
}

// startWorker starts the worker's process. It takes nothing before it is told to go.
func (r *rig) startWorker(ctx context.Context) (err error) {
	r.worker, err = r.launch("worker", nil, "bench", "part", "worker", "--nats-url", r.nats, "--slots", fmt.Sprint(r.o.Slots))
	if err != nil {
		return err
	}
	var ready struct{ Ready bool }
	return within(ctx, 15*time.Second, func(ctx context.Context) error { return r.worker.hear(ctx, &ready) })
}

// until waits for a condition, for as long as no part has died.
func (r *rig) until(ctx context.Context, limit time.Duration, what string, met func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited %s for %s", limit, what))
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		ok, err := met(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err := r.alive(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w%s", context.Cause(ctx), r.tails())
		case <-time.After(pause):
		}
	}
}

func (r *rig) alive() error {
	for _, p := range []*part{r.broker, r.engine, r.worker} {
		if p == nil {
			continue
		}
		select {
		case <-p.done:
			return p.failed()
		default:
		}
	}
	return nil
}

func (r *rig) tails() (s string) {
	for _, p := range []*part{r.broker, r.engine, r.worker} {
		if p != nil {
			s += p.tail()
		}
	}
	return s
}

// preload applies the job and asks for n runs of it, ready at a time; zero means now.
func (r *rig) preload(ctx context.Context, n int, at time.Time) (took time.Duration, err error) {
	if err := r.apply(ctx, noopJob()); err != nil {
		return 0, err
	}
	const batch = 2000
	began := time.Now()
	for done := 0; done < n; {
		requests := make([]eventstore.RunRequest, min(batch, n-done))
		for i := range requests {
			requests[i] = eventstore.RunRequest{Job: jobName, At: at}
		}
		got, err := r.store.Request(ctx, requests)
		if err != nil {
			return 0, fmt.Errorf("preload: %w", err)
		}
		for _, g := range got {
			if g.Err != nil {
				return 0, fmt.Errorf("preload: %w", g.Err)
			}
		}
		done += len(got)
		r.o.Say("%s: loaded %d of %d runs", r.name, done, n)
	}
	return time.Since(began), nil
}

func (r *rig) apply(ctx context.Context, specs ...domain.JobSpec) error {
	commands := make([]eventstore.JobCommand, len(specs))
	for i, s := range specs {
		commands[i] = eventstore.JobCommand{Name: s.Name, Do: domain.ApplyJob{Spec: s}}
	}
	if _, err := r.store.CommandJobs(ctx, commands); err != nil {
		return fmt.Errorf("apply the jobs: %w", err)
	}
	return nil
}

// settle leaves the tables as autovacuum would in time, and the disk without debts.
func (r *rig) settle(ctx context.Context) error {
	return execAll(ctx, r.db, "VACUUM (ANALYZE)", "CHECKPOINT")
}

// caughtUp reports whether feed and projections, where they run, have dealt with
// every event.
func (r *rig) caughtUp(ctx context.Context) (bool, error) {
	for name, on := range map[string]bool{projections.FeedName: r.feed, projections.RunSummariesName: r.projections} {
		if !on {
			continue
		}
		var at struct {
			eventstore.Cursor
			Scan any `json:"scan"`
		}
		err := r.watch.QueryRow(ctx, "SELECT cursor FROM checkpoints WHERE name = $1", name).Scan(&at)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && at.Scan != nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		ahead, _, err := r.store.Read(ctx, at.Cursor, 1)
		if err != nil || len(ahead) > 0 {
			return false, err
		}
	}
	return true, nil
}

// within runs f with a deadline.
func within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return f(ctx)
}
