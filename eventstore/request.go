package eventstore

import (
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
	Err     error // *domain.JobRefusal, or why this request alone could not be stored
}

// MaxAhead is how far ahead a run may be asked for.
const MaxAhead = 10 * 365 * 24 * time.Hour

// Request makes the runs asked for, all in one transaction; a request that
// cannot be stored is answered with its error and takes no other down with it.
func (s *Store) Request(ctx context.Context, requests []RunRequest) ([]Requested, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	var out []Requested
	err := s.withPartitions(ctx, func(span *span) error {
		return again(ctx, func() (err error) {
			out, err = s.request(ctx, requests, span)
			return err
		})
	})
	switch {
	case err == nil:
		return out, nil
	case !blamesRow(err):
		return nil, err
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

// Index: run_keys_pkey.
const insertKeys = `
INSERT INTO run_keys (job_id, key, run_id, requested_at)
SELECT j, k, r, now() FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS u(j, k, r) ORDER BY j, k
ON CONFLICT DO NOTHING RETURNING run_id`

// A later statement than the insert, so that it sees who won the conflict.
// Index: run_keys_pkey.
const selectKeys = `
SELECT k.job_id, k.key, k.run_id FROM unnest($1::uuid[], $2::text[]) AS u(j, k) JOIN run_keys k ON k.job_id = u.j AND k.key = u.k`

func (s *Store) request(ctx context.Context, requests []RunRequest, span *span) ([]Requested, error) {
	names := make([]string, len(requests))
	for i, r := range requests {
		names[i] = r.Job
	}
	slices.Sort(names)
	jobs := map[string]jobRow{}
	tx, err := begin(ctx, s.loops, shareJobs, []any{slices.Compact(names)}, func(rows pgx.Rows) error {
		j, err := scanJob(rows)
		jobs[j.Spec.Name] = j
		return err
	})
	if err != nil {
		return nil, err
	}
	defer tx.rollback(ctx)

	type keyed struct {
		job uuid.UUID
		key string
	}
	out := make([]Requested, len(requests))
	first := map[keyed]int{} // the request that speaks for the key in this batch
	var order []int
	var ids, jobIDs []uuid.UUID
	var keys []string
	keyOf := make([]keyed, len(requests))
	for i, r := range requests {
		j, ok := jobs[r.Job]
		if err := refuseRequest(r, j.Job, ok, tx.now); err != nil {
			out[i].Err = err
			continue
		}
		key := r.Key
		if key == "" {
			key = uuid.NewString()
		}
		k := keyed{j.ID, key}
		keyOf[i] = k
		if _, ok := first[k]; ok {
			continue
		}
		first[k] = i
		order = append(order, i)
		ids = append(ids, domain.KeyID(j.ID, key, readyAt(r.At, tx.now)))
		jobIDs, keys = append(jobIDs, j.ID), append(keys, key)
	}
	if len(order) == 0 {
		return out, nil
	}
	won := map[uuid.UUID]bool{}
	err = tx.query(ctx, insertKeys, []any{jobIDs, keys, ids}, func(rows pgx.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		won[id] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	runOf := map[keyed]uuid.UUID{}
	if len(won) < len(order) {
		err := tx.query(ctx, selectKeys, []any{jobIDs, keys}, func(rows pgx.Rows) error {
			var k keyed
			var id uuid.UUID
			err := rows.Scan(&k.job, &k.key, &id)
			runOf[k] = id
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var due liveRows
	var events eventRows
	for n, i := range order {
		r, j, k, id := requests[i], jobs[requests[i].Job], keyOf[i], ids[n]
		if won[id] {
			runOf[k] = id
			out[i].Created = true
			e := requestedRun(r, j, k.key, tx.now)
			run, err := domain.EvolveRun(domain.Run{ID: id}, e, tx.now)
			if err != nil {
				return nil, err
			}
			span.add(run.ReadyAt)
			due.add(run)
			if err := events.add(id, run.Version, tx.now, s.meta(r.Meta), e); err != nil {
				return nil, err
			}
		}
	}
	for i, r := range requests {
		if out[i].Err == nil {
			j := jobs[r.Job]
			out[i].RunID, out[i].Queue, out[i].Kind = runOf[keyOf[i]], j.Spec.Queue, j.Spec.Kind
			if out[i].RunID == uuid.Nil {
				return nil, errLookAgain
			}
		}
	}
	if len(due.ids) == 0 {
		return out, nil
	}
	b := &pgx.Batch{}
	due.queueDue(b)
	events.queue(b)
	if err := tx.commit(ctx, b); err != nil {
		return nil, conflict(err)
	}
	return out, nil
}

func refuseRequest(r RunRequest, j domain.Job, found bool, now time.Time) error {
	switch {
	case !found:
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
	for field, text := range map[string]string{"key": r.Key, "reason": r.Reason} {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return &RequestError{Field: field, Why: "holds NUL or is not valid UTF-8"}
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

func requestedRun(r RunRequest, j jobRow, key string, now time.Time) domain.RunScheduled {
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
