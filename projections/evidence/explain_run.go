package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// lateAfter is from when on a start deserves an explanation of its own.
const lateAfter = 5 * time.Second

// explainRun tells how the run of an instant came about and went.
func (a *Auditor) explainRun(ctx context.Context, x Explanation, id uuid.UUID) (Explanation, error) {
	d, err := a.reader.GetRun(ctx, id)
	if err != nil {
		return x, err
	}
	x.Run, x.Version, x.Verdict = &d, d.JobVersion, VerdictRan
	events, err := a.reader.RunEvents(ctx, id)
	if err != nil {
		return x, err
	}
	for _, e := range events {
		x.Chain = append(x.Chain, fmt.Sprintf("%s: %s by %s", clock(e.At), e.Type, e.Actor))
	}
	x.Summary = fmt.Sprintf("It ran as run %s", id)
	switch d.State {
	case domain.Skipped:
		x.Verdict = VerdictSkipped
		x.Summary, err = a.skippedSentence(ctx, d.Reason, d.BlockedBy)
		return x, err
	case domain.Pending:
		x.Summary, err = a.pendingSentence(ctx, id, d.Queue, d.Kind)
		return x, err
	case domain.Claimed:
		x.Summary += ", which is on its way to a worker"
	case domain.Running:
		x.Summary += fmt.Sprintf(", which worker %s executes (attempt %d)", d.Worker, d.Attempt)
	case domain.Succeeded:
		x.Summary += fmt.Sprintf(" and succeeded at attempt %d", d.Attempt)
	case domain.Failed:
		x.Summary += fmt.Sprintf(" and failed after %d attempts: %s", d.Attempt, d.ErrorMessage)
	case domain.Cancelled:
		x.Summary += " and was cancelled" + because(d.Reason)
	}
	x.Summary += lateness(d.ScheduledAt, d.FirstStartedAt, d.CatchUp) + "."
	return x, nil
}

func lateness(at time.Time, started *time.Time, catchUp bool) string {
	if started == nil {
		return ""
	}
	late := started.Sub(at)
	switch {
	case catchUp:
		return fmt.Sprintf("; it started %s late, because nothing decided the instant when it came (caught up)", late.Round(time.Second))
	case late > lateAfter:
		return fmt.Sprintf("; it started %s late", late.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("; it started %s after its instant", late.Round(time.Millisecond))
}

// skippedSentence names the run that was in the way, and who had it.
func (a *Auditor) skippedSentence(ctx context.Context, reason string, blocker *uuid.UUID) (string, error) {
	if blocker == nil {
		return "It was skipped: " + reason + ".", nil
	}
	b, err := a.reader.GetRun(ctx, *blocker)
	if _, gone := errors.AsType[*eventstore.RetiredError](err); gone {
		return fmt.Sprintf("It was skipped for the sake of run %s, whose events are no longer in the log: %s.", blocker, reason), nil
	}
	if err != nil {
		return "", err
	}
	held := fmt.Sprintf("run %s (of %s)", b.RunID, clock(b.ScheduledAt))
	if b.Worker != "" {
		held += ", held by worker " + b.Worker
	}
	switch {
	case b.FinishedAt != nil:
		held += " until " + clock(*b.FinishedAt)
	case b.LeaseUntil != nil:
		held += ", whose lease lasts until " + clock(*b.LeaseUntil)
	}
	switch reason {
	case domain.SkippedQueue:
		return "It was skipped because another instant waited already for " + held + ".", nil
	case domain.SkippedReplace:
		return "It was skipped while it waited: a later instant took its place, " + held + ".", nil
	}
	return "It was skipped because an earlier run of the job was not finished: " + held + ".", nil
}

// Index: waiting_runs_pkey, limit_holders_pkey.
const selectWaitingFor = `
SELECT coalesce((SELECT limit_key FROM waiting_runs WHERE run_id = $1), ''),
       (SELECT h.run_id FROM waiting_runs w JOIN limit_holders h ON h.key = w.limit_key WHERE w.run_id = $1 LIMIT 1),
       coalesce((SELECT greatest(extract(epoch FROM ready_at - now()), 0) FROM due_runs WHERE run_id = $1), 0),
       EXISTS (SELECT 1 FROM workers w, jsonb_to_recordset(w.lanes) AS l(queue text, kind text)
                WHERE w.seen_at > now() - interval '15 s' AND w.slots > 0 AND l.queue = $2 AND l.kind = $3),
       (SELECT max(w.seen_at) FROM workers w, jsonb_to_recordset(w.lanes) AS l(queue text, kind text) WHERE l.queue = $2 AND l.kind = $3)`

// pendingSentence says what a pending run waits for.
func (a *Auditor) pendingSentence(ctx context.Context, id uuid.UUID, queue, kind string) (string, error) {
	var key string
	var holder *uuid.UUID
	var ahead float64
	var workers bool
	var last *time.Time
	if err := a.store.Pool().QueryRow(ctx, selectWaitingFor, id, queue, kind).Scan(&key, &holder, &ahead, &workers, &last); err != nil {
		return "", fmt.Errorf("look what run %s waits for: %w", id, err)
	}
	run := fmt.Sprintf("Its run %s ", id)
	switch {
	case key != "" && holder != nil:
		return run + fmt.Sprintf("waits for a place (%s) that run %s has.", key, holder), nil
	case key != "":
		return run + fmt.Sprintf("waits for a place (%s).", key), nil
	case ahead > 0:
		return run + fmt.Sprintf("waits for its time, in %s.", time.Duration(ahead*float64(time.Second)).Round(time.Second)), nil
	case !workers && last != nil:
		return run + fmt.Sprintf("waits: no worker for kind %s in queue %s since %s.", kind, queue, clock(*last)), nil
	case !workers:
		return run + fmt.Sprintf("waits: no worker for kind %s in queue %s.", kind, queue), nil
	}
	return run + "waits for a free slot of a worker.", nil
}
