package eventstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// RunRequest asks for a run by hand or by program.
type RunRequest struct {
	Job     string
	Key     string          // the same key gives the same run; empty: one of its own
	At      time.Time       // zero: now
	Args    json.RawMessage // nil: the job's
	RetryOf *uuid.UUID
	Reason  string
	Meta    Meta
}

// Requested is what became of a request.
type Requested struct {
	RunID   uuid.UUID
	Created bool // false: the key had its run already
	Queue   string
	Kind    string
	Waits   bool  // for a claim
	Err     error // *domain.JobRefusal, or why this request alone could not be stored
}

// MaxAhead is how far ahead a run may be asked for.
const MaxAhead = 10 * 365 * 24 * time.Hour

// Request makes the runs asked for, all in one transaction; a request that
// cannot be stored is answered with its error and takes no other down with it.
func (s *Store) Request(ctx context.Context, requests []RunRequest) ([]Requested, error) {
	return s.RequestAndClaim(ctx, requests, nil)
}

// RequestAndClaim is Request, and claims directly what can be; nil leaves all runs
// to claims.
func (s *Store) RequestAndClaim(ctx context.Context, requests []RunRequest, claims *Direct) ([]Requested, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	var out []Requested
	err := s.withPartitions(ctx, func(span *span) error {
		return again(ctx, func() (err error) {
			out, err = s.request(ctx, requests, claims, span)
			return err
		})
	})
	switch {
	case err == nil:
		return out, nil
	case !blamesRow(err):
		return nil, err
	case claims != nil: // a run that cannot be claimed is the claimer's to park
		return s.RequestAndClaim(ctx, requests, nil)
	case len(requests) == 1:
		return []Requested{{Err: fmt.Errorf("request a run of %s: %w", requests[0].Job, err)}}, nil
	}
	half := len(requests) / 2
	first, err := s.Request(ctx, requests[:half])
	if err != nil {
		return nil, err
	}
	second, err := s.Request(ctx, requests[half:])
	return append(first, second...), err
}

// The lock keeps the job from being archived under the request, and the
// materializer not from deciding it: it changes no key. Index: jobs_name_key.
const shareJobs = `SELECT ` + jobColumns + ` FROM jobs WHERE name = ANY($1) ORDER BY id FOR KEY SHARE`

// The keys come in their order, in which all writers take them: none waits for
// one that waits for it.
//
// Index: run_keys_pkey.
const takeKeys = `SELECT daybook_take_keys($1, $2, $3)`

// For a few the function costs more than looking for each. The keys come in their
// order here, too.
//
// Index: run_keys_pkey.
const takeFewKeys = `
INSERT INTO run_keys (job_id, key, run_id, requested_at)
SELECT coalesce(($1::uuid[])[i], ($1::uuid[])[1]), k, ($3::uuid[])[i], now() FROM unnest($2::text[]) WITH ORDINALITY AS u(k, i)
ON CONFLICT DO NOTHING RETURNING run_id`

const fewKeys = 16

// A later statement than the insert, so that it sees who won the conflict.
// Index: run_keys_pkey.
const selectKeys = `
SELECT k.job_id, k.key, k.run_id FROM unnest($1::uuid[], $2::text[]) AS u(j, k) JOIN run_keys k ON k.job_id = u.j AND k.key = u.k`

// asked is a request that can be stored.
type asked struct {
	at      int // its place among the requests
	job     *jobRow
	key     string
	run     uuid.UUID // proposed, then the key's
	again   bool      // an earlier request of the batch has the key
	created bool
}

func byKey(a, b asked) int {
	return cmp.Or(compareIDs(a.job.ID, b.job.ID), cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at))
}

func (s *Store) request(ctx context.Context, requests []RunRequest, claims *Direct, span *span) ([]Requested, error) {
	names := make([]string, 0, 1)
	for i, r := range requests {
		if i == 0 || r.Job != requests[i-1].Job {
			names = append(names, r.Job)
		}
	}
	slices.Sort(names)
	jobs := map[string]*jobRow{}
	tx, err := begin(ctx, s.loops, shareJobs, []any{slices.Compact(names)}, func(rows pgx.Rows) error {
		j, err := scanJob(rows)
		jobs[j.Spec.Name] = &j
		return err
	})
	if err != nil {
		return nil, err
	}
	defer tx.rollback(ctx)

	out := make([]Requested, len(requests))
	asks := make([]asked, 0, len(requests))
	for i := range requests {
		r := &requests[i]
		j := jobs[r.Job]
		if err := refuseRequest(r, j, tx.now); err != nil {
			out[i].Err = err
			continue
		}
		key := r.Key
		if key == "" {
			key = uuid.NewString()
		}
		asks = append(asks, asked{at: i, job: j, key: key, run: domain.KeyID(j.ID, key, readyAt(r.At, tx.now))})
	}
	if len(asks) == 0 {
		return out, nil
	}
	slices.SortFunc(asks, byKey)
	direct := claims.begin(tx.now)
	for _, a := range asks {
		direct.lane(a.job.Spec.Queue, a.job.Spec.Kind, readyAt(requests[a.at].At, tx.now))
	}
	created, err := s.takeKeys(ctx, tx, asks, direct)
	if err != nil {
		return nil, err
	}
	for _, a := range asks {
		out[a.at] = Requested{RunID: a.run, Created: a.created, Queue: a.job.Spec.Queue, Kind: a.job.Spec.Kind}
	}
	if created == 0 {
		return out, nil
	}
	slices.SortFunc(asks, func(a, b asked) int { return cmp.Compare(a.at, b.at) }) // due in the order of the requests
	var events eventRows
	runs := make([]domain.Run, 0, created)
	events.grow(created)
	for _, a := range asks {
		if !a.created {
			continue
		}
		r := &requests[a.at]
		e := requestedRun(r, a.job, a.key, tx.now)
		run, err := domain.EvolveRun(domain.Run{ID: a.run}, e, tx.now)
		if err != nil {
			return nil, err
		}
		span.add(run.ReadyAt)
		runs = append(runs, run)
		if err := events.add(a.run, run.Version, tx.now, s.meta(r.Meta), e); err != nil {
			return nil, err
		}
	}
	if err := direct.pick(ctx, s, tx, runs); err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	queueWaiting(b, runs, direct)
	if err := direct.queue(ctx, s, tx, b, &events); err != nil {
		return nil, err
	}
	events.queue(b)
	if err := tx.commit(ctx, b); err != nil {
		return nil, conflict(err)
	}
	if err := direct.done(); err != nil {
		return nil, err
	}
	held := direct.held()
	for _, a := range asks {
		out[a.at].Waits = a.created && (direct.waits(a.run) || slices.Contains(held, a.job.Spec.Queue))
	}
	return out, nil
}

func queueWaiting(b *pgx.Batch, runs []domain.Run, direct *direct) {
	var due liveRows
	due.grow(len(runs))
	for _, r := range runs {
		if direct.waits(r.ID) {
			due.add(r)
		}
	}
	due.queueDue(b)
}

// takeKeys gives every request the run of its key, new or old, and tells how
// many are new. The requests are in the order of their keys.
func (s *Store) takeKeys(ctx context.Context, tx *txn, asks []asked, direct *direct) (created int, err error) {
	jobs, keys, ids := make([]uuid.UUID, 0, len(asks)), make([]string, 0, len(asks)), make([]uuid.UUID, 0, len(asks))
	for i := range asks {
		a := &asks[i]
		if i > 0 && a.job == asks[i-1].job && a.key == asks[i-1].key {
			a.again = true
			continue
		}
		jobs, keys, ids = append(jobs, a.job.ID), append(keys, a.key), append(ids, a.run)
	}
	var won []uuid.UUID // nil: all
	take := query{takeKeys, []any{column(jobs), keys, ids}, func(rows pgx.Rows) error { return rows.Scan(&won) }}
	if len(keys) <= fewKeys {
		won = make([]uuid.UUID, 0, fewKeys)
		take.sql, take.scan = takeFewKeys, func(rows pgx.Rows) error {
			var id uuid.UUID
			err := rows.Scan(&id)
			won = append(won, id)
			return err
		}
	}
	if err := tx.queries(ctx, direct.ask(take)...); err != nil {
		return 0, err
	}
	if len(won) == len(ids) {
		won = nil
	}
	type keyed struct {
		job uuid.UUID
		key string
	}
	fresh := make(map[uuid.UUID]bool, len(won))
	for _, id := range won {
		fresh[id] = true
	}
	var had map[keyed]uuid.UUID
	if won != nil {
		had = make(map[keyed]uuid.UUID, len(ids))
		err := tx.query(ctx, selectKeys, []any{jobs, keys}, func(rows pgx.Rows) error {
			var k keyed
			var id uuid.UUID
			err := rows.Scan(&k.job, &k.key, &id)
			had[k] = id
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	for i := range asks {
		a := &asks[i]
		switch {
		case a.again:
			a.run = asks[i-1].run
		case won == nil || fresh[a.run]:
			a.created = true
			created++
		default:
			var ok bool
			if a.run, ok = had[keyed{a.job.ID, a.key}]; !ok {
				return 0, errLookAgain
			}
		}
	}
	return created, nil
}

func refuseRequest(r *RunRequest, j *jobRow, now time.Time) error {
	switch {
	case j == nil:
		return &domain.JobRefusal{Name: r.Job, Code: domain.JobUnknown}
	case j.Archived:
		return &domain.JobRefusal{Name: r.Job, Code: domain.JobIsGone}
	case r.At.After(now.Add(MaxAhead)):
		return &RequestError{Field: "at", Why: fmt.Sprintf("%s is more than ten years ahead", r.At.UTC().Format(time.RFC3339))}
	case len(r.Key) > 256:
		return &RequestError{Field: "key", Why: fmt.Sprintf("%d bytes long, at most 256 are kept", len(r.Key))}
	case len(r.Reason) > 1024:
		return &RequestError{Field: "reason", Why: fmt.Sprintf("%d bytes long, at most 1024 are kept", len(r.Reason))}
	}
	for _, text := range [...]struct{ field, is string }{{"key", r.Key}, {"reason", r.Reason}} {
		if strings.ContainsRune(text.is, 0) || !utf8.ValidString(text.is) {
			return &RequestError{Field: text.field, Why: "holds NUL or is not valid UTF-8"}
		}
	}
	if err := domain.CheckStorable(r.Args); err != nil {
		return &RequestError{Field: "args", Why: err.Error()}
	}
	return nil
}

// RequestError says what is wrong with a request.
type RequestError struct{ Field, Why string }

func (e *RequestError) Error() string { return e.Field + ": " + e.Why }

func requestedRun(r *RunRequest, j *jobRow, key string, now time.Time) domain.RunScheduled {
	origin := domain.OriginRequest
	if r.RetryOf != nil {
		origin = domain.OriginRetry
	}
	ready := readyAt(r.At, now)
	return domain.RunScheduled{
		JobID: j.ID, Job: j.Spec.Name, JobVersion: j.SpecVersion, Origin: origin, ScheduledAt: ready, ReadyAt: ready,
		Queue: j.Spec.Queue, Kind: j.Spec.Kind, Priority: j.Spec.Priority, Key: key, Args: r.Args, RetryOf: r.RetryOf, Reason: r.Reason,
	}
}

func readyAt(at, now time.Time) time.Time {
	if at.After(now) {
		return at.UTC().Truncate(time.Microsecond)
	}
	return now
}
