package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxConsecutive is where the count of consecutive failures stops.
const MaxConsecutive = 1000

// JobStats are counts and latest outcomes of a job's runs.
type JobStats struct {
	Job           string     `json:"job"`
	Succeeded     int64      `json:"succeeded"`
	Failed        int64      `json:"failed"`
	Cancelled     int64      `json:"cancelled"`
	Skipped       int64      `json:"skipped"`
	LastSuccessAt *time.Time `json:"last_success_at,omitempty"`
	LastFailureAt *time.Time `json:"last_failure_at,omitempty"`
	LastRunID     uuid.UUID  `json:"last_run_id"`          // the one that finished last
	LastState     string     `json:"last_state,omitempty"` // and how

	// ConsecutiveFailures are the failed runs with a later instant than the last
	// one that succeeded, up to MaxConsecutive.
	ConsecutiveFailures int `json:"consecutive_failures"`
}

// Index: job_stats_pkey, run_summaries_pkey, and run_summaries_job for the count,
// which is made only if the newest failure is newer than the last success. Both
// are written as rows, for the reasons given in list.go.
const selectStats = `
SELECT s.job, s.succeeded, s.failed, s.cancelled, s.skipped, s.last_success_at, s.last_failure_at, s.last_run_id, coalesce(l.state, ''),
       CASE WHEN coalesce((SELECT (f.job_id, f.state) = (s.job_id, 'failed') AND f.run_id > x.run_id FROM run_summaries f
          WHERE (f.job_id, f.state, f.run_id) <= (s.job_id, 'failed', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
          ORDER BY f.job_id DESC, f.state DESC, f.run_id DESC LIMIT 1), false)
       THEN (SELECT count(*) FILTER (WHERE f.inside) FROM (SELECT (f.job_id, f.state) = (s.job_id, 'failed') AS inside FROM run_summaries f
          WHERE (f.job_id, f.state, f.run_id) > (s.job_id, 'failed', x.run_id) ORDER BY f.job_id, f.state, f.run_id LIMIT $2) f)
       ELSE 0 END
  FROM job_stats s LEFT JOIN run_summaries l ON l.run_id = s.last_run_id
       CROSS JOIN LATERAL (SELECT coalesce(s.last_success_run, '00000000-0000-0000-0000-000000000000') AS run_id) x
 WHERE s.job_id = ANY($1)`

// JobStats gives the statistics of the named jobs; one without a finished run is
// missing.
func (r *Reader) JobStats(ctx context.Context, jobs ...string) (map[string]JobStats, error) {
	ids := make([]uuid.UUID, len(jobs))
	for i, j := range jobs {
		ids[i] = jobID(j)
	}
	rows, err := r.store.Pool().Query(ctx, selectStats, ids, MaxConsecutive)
	if err != nil {
		return nil, fmt.Errorf("read job statistics: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (JobStats, error) {
		s, err := pgx.RowToStructByPos[JobStats](row)
		s.LastSuccessAt, s.LastFailureAt = inUTC(s.LastSuccessAt), inUTC(s.LastFailureAt)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read job statistics: %w", err)
	}
	out := make(map[string]JobStats, len(all))
	for _, s := range all {
		out[s.Job] = s
	}
	return out, nil
}
