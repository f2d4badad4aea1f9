package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/outbox"
)

// ScaleOptions say what lies beside the measured runs.
type ScaleOptions struct {
	Options
	Runs     int
	Finished []int         // runs that ended before, with their whole history
	Future   []int         // runs that wait for a later time
	Open     bool          // with a transaction that stays open, too
	OpenFor  time.Duration // how long it has been, and runs were claimed meanwhile, when the measurement begins
	Rounds   int
	Version  string
}

// condition is what lies beside the measured runs.
type condition struct {
	name             string
	finished, future int
	open             bool
}

// Scale measures claims alone, and a drain, beside a lot of other data.
func Scale(ctx context.Context, o ScaleOptions) (rep Report, err error) {
	l, err := openLab(ctx, o.Options)
	if err != nil {
		return rep, err
	}
	defer l.close()
	conditions := []condition{{name: "empty"}}
	for _, n := range o.Finished {
		conditions = append(conditions, condition{name: fmt.Sprintf("%d finished", n), finished: n})
	}
	for _, n := range o.Future {
		conditions = append(conditions, condition{name: fmt.Sprintf("%d future", n), future: n})
	}
	if o.Open {
		name := "open transaction"
		if o.OpenFor > 0 {
			name = fmt.Sprintf("transaction open for %v", o.OpenFor)
		}
		conditions = append(conditions, condition{name: name, open: true})
	}
	claims, drains := make([][]Result, len(conditions)), make([][]Result, len(conditions))
	for range o.Rounds {
		for i, c := range conditions {
			o.Say("%s", c.name)
			claim, drain, err := l.scale(ctx, c, o)
			if err != nil {
				return rep, fmt.Errorf("%s: %w", c.name, err)
			}
			claims[i], drains[i] = append(claims[i], claim), append(drains[i], drain)
		}
	}
	rep = l.report("scale", o.Rounds, o.Version)
	for _, all := range [][][]Result{claims, drains} {
		for _, results := range all {
			rep.Results = append(rep.Results, median(results))
		}
	}
	rep.Result = rep.Results[0]
	return rep, nil
}

func (l *lab) scale(ctx context.Context, c condition, o ScaleOptions) (claim, drain Result, err error) {
	n, lane := o.Runs, eventstore.NewLane(queue, kind)
	r, err := l.newStore(ctx, variant{name: "drain, " + c.name})
	if err != nil {
		return claim, drain, err
	}
	defer r.close()
	if err := r.seed(ctx, c); err != nil {
		return claim, drain, err
	}
	if c.open {
		held, err := pgx.Connect(ctx, r.db)
		if err != nil {
			return claim, drain, err
		}
		defer func() { _ = held.Close(context.WithoutCancel(ctx)) }()
		for _, s := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM jobs"} {
			if _, err := held.Exec(ctx, s); err != nil {
				return claim, drain, err
			}
		}
		began := time.Now()
		for held := time.Duration(0); held < o.OpenFor; held = time.Since(began) {
			r.o.Say("%s: open for %v of %v", r.name, held.Round(time.Second), o.OpenFor)
			if _, err := r.claimAlone(ctx, lane, n); err != nil {
				return claim, drain, err
			}
		}
	}
	if claim, err = r.claimAlone(ctx, lane, n); err != nil {
		return claim, drain, err
	}
	claim.Name = "claims, " + c.name
	if _, err := r.preload(ctx, n, time.Time{}); err != nil {
		return claim, drain, err
	}
	if err := r.settle(ctx); err != nil {
		return claim, drain, err
	}
	if err := r.start(ctx); err != nil {
		return claim, drain, err
	}
	if err := r.startWorker(ctx); err != nil {
		return claim, drain, err
	}
	drain, err = r.drainLoaded(ctx, n)
	return claim, drain, err
}

// claimAlone claims runs in batches, without anybody to execute them, and takes
// them away again.
func (r *rig) claimAlone(ctx context.Context, lane *eventstore.Lane, n int) (res Result, err error) {
	const batch = 500
	if _, err := r.preload(ctx, n, time.Time{}); err != nil {
		return res, err
	}
	if err := r.settle(ctx); err != nil {
		return res, err
	}
	out := outbox.NewWriter("bench")
	began, spent, claimed := time.Now(), ServerTime(r.postmaster), 0
	for empty := 0; claimed < n && empty < 3; {
		got, err := r.store.Claim(ctx, eventstore.ClaimRequest{Lane: lane, Limit: batch, Lease: time.Minute}, out)
		if err != nil {
			return res, err
		}
		if claimed += len(got.Runs); len(got.Runs) == 0 {
			empty++
		}
		r.o.Say("%s: %d of %d claimed", r.name, claimed, n)
	}
	took := time.Since(began).Seconds()
	if claimed != n {
		return res, fmt.Errorf("%d of %d runs were claimed", claimed, n)
	}
	res = Result{Batch: batch, Runs: n, Seconds: round(took, 3), RunsPerSecond: round(float64(n)/took, 0)}
	if r.postmaster != 0 {
		us := round(float64((ServerTime(r.postmaster)-spent).Microseconds())/float64(n), 1)
		res.CPU = &CPU{Database: us, Total: us}
	}
	return res, execAll(ctx, r.db, "TRUNCATE claims", "TRUNCATE outbox")
}

// seed puts data beside the runs to be measured, by the superuser and past the
// program: a million whole lives would take minutes.
func (r *rig) seed(ctx context.Context, c condition) error {
	if c.finished == 0 && c.future == 0 {
		return nil
	}
	if err := r.apply(ctx, noopJob()); err != nil {
		return err
	}
	const step = 250_000
	for done := 0; done < c.finished; done += step {
		if err := execAll(ctx, r.db, fmt.Sprintf(finishedRuns, done+1, min(done+step, c.finished), jobName)); err != nil {
			return fmt.Errorf("make finished runs: %w", err)
		}
		r.o.Say("%s: %d of %d finished runs made", r.name, min(done+step, c.finished), c.finished)
	}
	for done := 0; done < c.future; done += step {
		if err := execAll(ctx, r.db, fmt.Sprintf(futureRuns, done+1, min(done+step, c.future), jobName)); err != nil {
			return fmt.Errorf("make future runs: %w", err)
		}
		r.o.Say("%s: %d of %d future runs made", r.name, min(done+step, c.future), c.future)
	}
	return nil
}

// Ids begin with the time, as real ones do.
const seedIDs = `
WITH r AS (
  SELECT g, (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint - 3600000 + g / 10), 12, '0') || '8' || substr(md5(g::text), 1, 3) || 'a' || substr(md5(g::text), 4, 15))::uuid AS id,
         j.id AS job, j.queue, j.kind
    FROM generate_series(%d, %d) g, (SELECT id, spec->>'queue' AS queue, spec->>'kind' AS kind FROM jobs WHERE name = '%s') j)`

const finishedRuns = seedIDs + `
INSERT INTO events (category, stream_id, version, era, type, at, actor, data)
SELECT 'run', r.id, e.v, (SELECT max(era) FROM eras), e.type, now() - interval '1 hour' + e.v * interval '1 ms', 'bench', e.data
  FROM r, LATERAL (VALUES
    (1, 'RunScheduled', jsonb_build_object('job_id', r.job, 'job', 'bench-noop', 'job_version', 1, 'origin', 'request', 'scheduled_at', '2026-01-01T00:00:00Z',
       'ready_at', '2026-01-01T00:00:00Z', 'queue', r.queue, 'kind', r.kind, 'priority', 5, 'key', r.id)),
    (2, 'RunClaimed', jsonb_build_object('claim_id', r.id, 'lease_until', '2026-01-01T00:01:00Z', 'dispatch', 1)),
    (3, 'RunStarted', jsonb_build_object('claim_id', r.id, 'token', r.id, 'worker', 'bench', 'attempt', 1, 'lease_until', '2026-01-01T00:01:00Z')),
    (4, 'RunSucceeded', jsonb_build_object('claim_id', r.id, 'attempt', 1))) e(v, type, data)`

const futureRuns = seedIDs + `
INSERT INTO due_runs (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at, version, changed_at)
SELECT r.id, r.job, 1, 'request', r.queue, r.kind, 5, now() + interval '1 day' + g * interval '1 ms', now() + interval '1 day' + g * interval '1 ms', 1, now() FROM r`
