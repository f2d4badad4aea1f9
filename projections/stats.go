package projections

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// statsDelta is what runs that became final add to the statistics of their jobs.
type statsDelta map[uuid.UUID]*jobDelta

type jobDelta struct {
	job                                   string
	succeeded, failed, cancelled, skipped int64
	lastSuccessAt, lastFailureAt          *time.Time
	lastSuccessRun                        *uuid.UUID
	lastFinishedAt                        time.Time
	lastRun                               uuid.UUID
}

func (d *statsDelta) add(s *RunSummary) {
	if *d == nil {
		*d = statsDelta{}
	}
	j := (*d)[s.JobID]
	if j == nil {
		j = &jobDelta{job: s.Job}
		(*d)[s.JobID] = j
	}
	at := *s.FinishedAt
	switch s.State {
	case domain.Succeeded:
		j.succeeded++
		j.lastSuccessAt = latest(j.lastSuccessAt, at)
		if j.lastSuccessRun == nil || bytes.Compare(s.RunID[:], j.lastSuccessRun[:]) > 0 {
			j.lastSuccessRun = new(s.RunID)
		}
	case domain.Failed:
		j.failed++
		j.lastFailureAt = latest(j.lastFailureAt, at)
	case domain.Cancelled:
		j.cancelled++
	case domain.Skipped:
		j.skipped++
	case domain.Pending, domain.Claimed, domain.Running:
	}
	if c := at.Compare(j.lastFinishedAt); c > 0 || c == 0 && bytes.Compare(s.RunID[:], j.lastRun[:]) > 0 {
		j.lastFinishedAt, j.lastRun = at, s.RunID
	}
}

func latest(have *time.Time, t time.Time) *time.Time {
	if have != nil && !t.After(*have) {
		return have
	}
	return &t
}

// addStats adds deltas. GREATEST passes over NULL. Index: job_stats_pkey.
func addStats(table string) string {
	return `
INSERT INTO ` + table + ` AS s (job_id, job, succeeded, failed, cancelled, skipped, last_success_at, last_failure_at, last_success_run, last_finished_at, last_run_id)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::uuid[], $10::timestamptz[], $11::uuid[])
ON CONFLICT (job_id) DO UPDATE SET
  succeeded = s.succeeded + excluded.succeeded, failed = s.failed + excluded.failed,
  cancelled = s.cancelled + excluded.cancelled, skipped = s.skipped + excluded.skipped,
  last_success_at = greatest(s.last_success_at, excluded.last_success_at),
  last_failure_at = greatest(s.last_failure_at, excluded.last_failure_at),
  last_success_run = greatest(s.last_success_run, excluded.last_success_run),
  last_finished_at = greatest(s.last_finished_at, excluded.last_finished_at),
  last_run_id = CASE WHEN (excluded.last_finished_at, excluded.last_run_id) > (s.last_finished_at, s.last_run_id) THEN excluded.last_run_id ELSE s.last_run_id END`
}

func (d statsDelta) queue(b *pgx.Batch, sql string) {
	if len(d) == 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(d), compareIDs)
	var jobs []string
	var counts [4][]int64
	var successAt, failureAt []*time.Time
	var successRun []*uuid.UUID
	var finishedAt []time.Time
	var lastRun []uuid.UUID
	for _, id := range ids {
		j := d[id]
		jobs = append(jobs, j.job)
		for i, n := range []int64{j.succeeded, j.failed, j.cancelled, j.skipped} {
			counts[i] = append(counts[i], n)
		}
		successAt, failureAt, successRun = append(successAt, j.lastSuccessAt), append(failureAt, j.lastFailureAt), append(successRun, j.lastSuccessRun)
		finishedAt, lastRun = append(finishedAt, j.lastFinishedAt), append(lastRun, j.lastRun)
	}
	b.Queue(sql, ids, jobs, counts[0], counts[1], counts[2], counts[3], successAt, failureAt, successRun, finishedAt, lastRun)
}
