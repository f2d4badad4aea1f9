package projections

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The columns of run_summaries, in the order of scanSummary and summaryRows. The
// fixed ones come with the first event and never change.
var (
	fixedColumns = []column{
		{"run_id", "uuid"}, {"job_id", "uuid"}, {"job", "text"}, {"job_version", "int"}, {"queue", "text"}, {"kind", "text"},
		{"priority", "smallint"}, {"origin", "text"}, {"key", "text"}, {"catch_up", "bool"}, {"retry_of", "uuid"}, {"scheduled_at", "timestamptz"},
	}
	movingColumns = []column{
		{"version", "int"}, {"state", "text"}, {"ready_at", "timestamptz"}, {"attempt", "int"}, {"dispatches", "int"}, {"claims", "int"},
		{"claim_id", "uuid"}, {"cancel_requested", "bool"}, {"worker", "text"}, {"claimed_at", "timestamptz"}, {"started_at", "timestamptz"},
		{"first_started_at", "timestamptz"}, {"finished_at", "timestamptz"}, {"changed_at", "timestamptz"},
		{"error_type", "text"}, {"error_message", "text"}, {"reason", "text"}, {"blocked_by", "uuid"},
	}
	summaryColumns = strings.Join(names(append(slices.Clip(fixedColumns), movingColumns...)), ", ")
)

type column struct{ name, typ string }

func names(cs []column) []string {
	out := make([]string, len(cs))
	for i, c := range cs {
		out[i] = c.name
	}
	return out
}

// upsertSummaries writes whole rows, whatever was there. Index: run_summaries_pkey.
func upsertSummaries(table string) string {
	var arrays, sets []string
	for i, c := range append(slices.Clip(fixedColumns), movingColumns...) {
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, c.typ))
	}
	for _, c := range movingColumns {
		sets = append(sets, c.name+" = excluded."+c.name)
	}
	return "INSERT INTO " + table + " (" + summaryColumns + ") SELECT * FROM unnest(" + strings.Join(arrays, ", ") +
		") ON CONFLICT (run_id) DO UPDATE SET " + strings.Join(sets, ", ")
}

// scanSummary reads a row of summaryColumns.
func scanSummary(row pgx.CollectableRow) (RunSummary, error) {
	var s RunSummary
	err := row.Scan((*[16]byte)(&s.RunID), (*[16]byte)(&s.JobID), &s.Job, &s.JobVersion, &s.Queue, &s.Kind,
		&s.Priority, (*string)(&s.Origin), &s.Key, &s.CatchUp, &s.RetryOf, &s.ScheduledAt,
		&s.Version, (*string)(&s.State), &s.ReadyAt, &s.Attempt, &s.Dispatches, &s.Claims,
		&s.ClaimID, &s.CancelRequested, &s.Worker, &s.ClaimedAt, &s.StartedAt,
		&s.FirstStartedAt, &s.FinishedAt, &s.ChangedAt,
		&s.ErrorType, &s.ErrorMessage, &s.Reason, &s.BlockedBy)
	for _, t := range []*time.Time{&s.ScheduledAt, &s.ReadyAt, &s.ChangedAt, s.ClaimedAt, s.StartedAt, s.FirstStartedAt, s.FinishedAt} {
		if t != nil {
			*t = t.UTC()
		}
	}
	return s, err
}

// summaryRows are rows as one array a column, of the types that pgx encodes
// without reflection: a page is some tens of thousands of values.
type summaryRows struct {
	runID, jobID, retryOf, claimID, blockedBy                                         pgtype.FlatArray[pgtype.UUID]
	job, queue, kind, origin, key, state, worker, errorType, errorText, reason        []string
	jobVersion, version, attempt, dispatches, claims                                  []int32
	priority                                                                          []int16
	catchUp, cancelRequested                                                          []bool
	scheduledAt, readyAt, changedAt, claimedAt, startedAt, firstStartedAt, finishedAt pgtype.FlatArray[pgtype.Timestamptz]
}

func (r *summaryRows) add(s *RunSummary) {
	r.runID, r.jobID, r.job, r.jobVersion = append(r.runID, pgID(&s.RunID)), append(r.jobID, pgID(&s.JobID)), append(r.job, s.Job), append(r.jobVersion, int32(s.JobVersion))
	r.queue, r.kind, r.priority = append(r.queue, s.Queue), append(r.kind, s.Kind), append(r.priority, int16(s.Priority))
	r.origin, r.key, r.catchUp = append(r.origin, string(s.Origin)), append(r.key, s.Key), append(r.catchUp, s.CatchUp)
	r.retryOf, r.scheduledAt = append(r.retryOf, pgID(s.RetryOf)), append(r.scheduledAt, pgTime(&s.ScheduledAt))
	r.version, r.state, r.readyAt = append(r.version, int32(s.Version)), append(r.state, string(s.State)), append(r.readyAt, pgTime(&s.ReadyAt))
	r.attempt, r.dispatches, r.claims = append(r.attempt, int32(s.Attempt)), append(r.dispatches, int32(s.Dispatches)), append(r.claims, int32(s.Claims))
	r.claimID, r.cancelRequested, r.worker = append(r.claimID, pgID(s.ClaimID)), append(r.cancelRequested, s.CancelRequested), append(r.worker, s.Worker)
	r.claimedAt, r.startedAt = append(r.claimedAt, pgTime(s.ClaimedAt)), append(r.startedAt, pgTime(s.StartedAt))
	r.firstStartedAt, r.finishedAt, r.changedAt = append(r.firstStartedAt, pgTime(s.FirstStartedAt)), append(r.finishedAt, pgTime(s.FinishedAt)), append(r.changedAt, pgTime(&s.ChangedAt))
	r.errorType, r.errorText = append(r.errorType, s.ErrorType), append(r.errorText, s.ErrorMessage)
	r.reason, r.blockedBy = append(r.reason, s.Reason), append(r.blockedBy, pgID(s.BlockedBy))
}

// reset forgets the rows and keeps their room.
func (r *summaryRows) reset() {
	r.runID, r.jobID, r.retryOf, r.claimID, r.blockedBy = r.runID[:0], r.jobID[:0], r.retryOf[:0], r.claimID[:0], r.blockedBy[:0]
	for _, c := range []*[]string{&r.job, &r.queue, &r.kind, &r.origin, &r.key, &r.state, &r.worker, &r.errorType, &r.errorText, &r.reason} {
		*c = (*c)[:0]
	}
	for _, c := range []*[]int32{&r.jobVersion, &r.version, &r.attempt, &r.dispatches, &r.claims} {
		*c = (*c)[:0]
	}
	r.priority, r.catchUp, r.cancelRequested = r.priority[:0], r.catchUp[:0], r.cancelRequested[:0]
	for _, c := range []*pgtype.FlatArray[pgtype.Timestamptz]{&r.scheduledAt, &r.readyAt, &r.changedAt, &r.claimedAt, &r.startedAt, &r.firstStartedAt, &r.finishedAt} {
		*c = (*c)[:0]
	}
}

func (r *summaryRows) columns() []any {
	return []any{
		r.runID, r.jobID, r.job, r.jobVersion, r.queue, r.kind,
		r.priority, r.origin, r.key, r.catchUp, r.retryOf, r.scheduledAt,
		r.version, r.state, r.readyAt, r.attempt, r.dispatches, r.claims,
		r.claimID, r.cancelRequested, r.worker, r.claimedAt, r.startedAt,
		r.firstStartedAt, r.finishedAt, r.changedAt,
		r.errorType, r.errorText, r.reason, r.blockedBy,
	}
}

func pgID(id *uuid.UUID) pgtype.UUID {
	if id == nil {
		return pgtype.UUID{}
	}
	return pgtype.UUID{Bytes: *id, Valid: true}
}

func pgTime(t *time.Time) pgtype.Timestamptz {
	if t == nil {
		return pgtype.Timestamptz{}
	}
	return pgtype.Timestamptz{Time: *t, Valid: true}
}

// pgIDs are ids as an array that is encoded without reflection.
func pgIDs(ids []uuid.UUID) pgtype.FlatArray[pgtype.UUID] {
	out := make(pgtype.FlatArray[pgtype.UUID], len(ids))
	for i := range ids {
		out[i] = pgID(&ids[i])
	}
	return out
}
