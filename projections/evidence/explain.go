package evidence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Verdict says in one word what happened at an instant.
type Verdict string

// The verdicts.
const (
	VerdictRan        Verdict = "ran"         // a run exists; its state says how it went
	VerdictSkipped    Verdict = "skipped"     // decided against: a policy, or a run in the way
	VerdictPaused     Verdict = "paused"      // the job was paused
	VerdictArchived   Verdict = "archived"    // the job was archived
	VerdictNotCreated Verdict = "not_created" // the job did not exist yet
	VerdictNotDue     Verdict = "not_due"     // no instant of the schedule then in force
	VerdictPending    Verdict = "undecided"   // the instant has come or will come; no decision yet
	VerdictMissing    Verdict = "missing"     // due and without a decision: the history is damaged
)

// Explanation is why something ran, did not run, or ran late.
type Explanation struct {
	Job     string                 `json:"job"`
	At      time.Time              `json:"at"`
	Verdict Verdict                `json:"verdict"`
	Summary string                 `json:"summary"` // one sentence
	Chain   []string               `json:"chain"`   // the decisions, in order
	Version int                    `json:"job_version,omitempty"`
	Run     *projections.RunDetail `json:"run,omitempty"`
	Before  *time.Time             `json:"previous_instant,omitempty"` // nearest instants of the schedule in force
	After   *time.Time             `json:"next_instant,omitempty"`

	// Of a job that had no schedule then: the nearest runs.
	RunBefore *NearRun `json:"previous_run,omitempty"`
	RunAfter  *NearRun `json:"next_run,omitempty"`
}

// NearRun is a run that came due about an instant.
type NearRun struct {
	RunID uuid.UUID    `json:"run_id"`
	At    time.Time    `json:"at"`
	State domain.State `json:"state"`
}

// Index: run_slots_pkey.
const selectSlotRun = `SELECT run_id FROM run_slots WHERE job_id = $1 AND scheduled_at = $2`

// Explain tells what became of one instant of a job, from the decisions on
// record. The instant counts to the microsecond.
func (a *Auditor) Explain(ctx context.Context, job string, at time.Time) (Explanation, error) {
	x := Explanation{Job: job, At: at.UTC()}
	t, err := a.timelineOf(ctx, job)
	if err != nil {
		return x, err
	}
	var run uuid.UUID
	err = a.store.Pool().QueryRow(ctx, selectSlotRun, t.Job.ID, at).Scan(&run)
	switch {
	case err == nil:
		x, err = a.explainRun(ctx, x, run)
		if _, gone := errors.AsType[*eventstore.RetiredError](err); gone {
			return x.ofRetired(&t, run), nil
		}
		return x, err
	case !errors.Is(err, pgx.ErrNoRows):
		return x, fmt.Errorf("look for the run: %w", err)
	}
	p, ok := t.at(x.At)
	if !ok {
		x.Verdict = VerdictNotCreated
		x.Summary = fmt.Sprintf("The job did not exist then: it was created at %s.", clock(t.Created))
		return x, nil
	}
	x.Version = p.Version
	x.nearest(p.set)
	switch p.State {
	case "paused":
		x.Verdict = VerdictPaused
		x.Summary = fmt.Sprintf("The job was paused by %s at %s%s, and instants of a pause are not made up for.", p.Actor, clock(p.Since), because(p.Reason))
		return x, nil
	case "archived":
		x.Verdict = VerdictArchived
		x.Summary = fmt.Sprintf("The job was archived by %s at %s%s.", p.Actor, clock(p.Since), because(p.Reason))
		return x, nil
	}
	if !due(p.set, x.At) {
		x.Verdict = VerdictNotDue
		if p.set == nil {
			if err := a.nearestRuns(ctx, &x, t.Job.ID); err != nil {
				return x, err
			}
		}
		x.Summary = x.notDue(p)
		return x, nil
	}
	if s, ok := t.skip(x.At); ok {
		x.Verdict = VerdictSkipped
		x.Summary = skipSentence(s, p.Spec)
		x.Chain = append(x.Chain, fmt.Sprintf("%s: %d instants from %s to %s skipped (%s)", clock(s.At), s.Count, clock(s.From), clock(s.To), s.Reason))
		return x, nil
	}
	return a.explainUndecided(ctx, x, &t)
}

// ofRetired tells what the job's stream keeps of a run whose own is gone.
func (x Explanation) ofRetired(t *timeline, run uuid.UUID) Explanation {
	where := "Its events were retired from the log"
	if m := t.retired(x.At); m != nil {
		where += fmt.Sprintf(" at %s, to %s (sha256 %s)", clock(*m.DroppedAt), m.File, m.SHA256)
	}
	x.Verdict, x.Summary = VerdictRan, fmt.Sprintf("It ran as run %s. %s.", run, where)
	if p, ok := t.at(x.At); ok {
		x.Version = p.Version
	}
	if reason, _ := t.retiredAs(x.At); reason != "" {
		x.Verdict, x.Summary = VerdictSkipped, fmt.Sprintf("Its run %s was skipped: %s. %s.", run, reason, where)
	}
	return x
}

func (a *Auditor) explainUndecided(ctx context.Context, x Explanation, t *timeline) (Explanation, error) {
	now, err := a.store.Now(ctx)
	if err != nil {
		return x, err
	}
	switch {
	case !x.At.After(t.Through):
		x.Verdict = VerdictMissing
		x.Summary = "The instant was due under the definition in force and has no decision on record, although later ones have: the history is damaged. Run `daybook audit verify`."
	case x.At.After(now):
		x.Verdict = VerdictPending
		x.Summary = fmt.Sprintf("The instant is still to come, in %s.", x.At.Sub(now).Round(time.Second))
	default:
		x.Verdict = VerdictPending
		x.Summary = fmt.Sprintf("The instant passed %s ago and is not decided yet: no engine has looked since %s. Is one running?", now.Sub(x.At).Round(time.Second), clock(t.Through))
	}
	return x, nil
}

// notDue says which instants were due instead.
func (x *Explanation) notDue(p period) string {
	if p.set == nil {
		return "The job had no schedule then: it runs on request only." + x.nearRuns()
	}
	s := fmt.Sprintf("It is no instant of the schedule then in force (%s).", p.set.Describe())
	switch {
	case x.Before != nil && x.After != nil:
		s += fmt.Sprintf(" The nearest are %s and %s.", clock(*x.Before), clock(*x.After))
	case x.After != nil:
		s += fmt.Sprintf(" The first is %s.", clock(*x.After))
	case x.Before != nil:
		s += fmt.Sprintf(" The last is %s.", clock(*x.Before))
	}
	return s
}

func (x *Explanation) nearest(set *schedule.Set) {
	if set == nil {
		return
	}
	if f, ok := set.Prev(x.At); ok {
		x.Before = &f.At
	}
	if f, ok := set.Next(x.At); ok {
		x.After = &f.At
	}
}

// One run of each state on either side: ids are in the order of the times at which
// runs came due.
//
// Index: run_summaries_job.
const selectNearestRuns = `
(SELECT false, n.run_id, n.scheduled_at, n.state FROM unnest($3::text[]) s(state), LATERAL (
   SELECT r.run_id, r.scheduled_at, r.state FROM run_summaries r
    WHERE r.job_id = $1 AND r.state = s.state AND r.run_id < $2 ORDER BY r.run_id DESC LIMIT 1) n ORDER BY n.run_id DESC LIMIT 1)
UNION ALL
(SELECT true, n.run_id, n.scheduled_at, n.state FROM unnest($3::text[]) s(state), LATERAL (
   SELECT r.run_id, r.scheduled_at, r.state FROM run_summaries r
    WHERE r.job_id = $1 AND r.state = s.state AND r.run_id >= $2 ORDER BY r.run_id LIMIT 1) n ORDER BY n.run_id LIMIT 1)`

func (a *Auditor) nearestRuns(ctx context.Context, x *Explanation, job uuid.UUID) error {
	var from uuid.UUID // the least id of a run that came due then or later
	for i, ms := 5, max(x.At.UnixMilli(), 0); i >= 0; i, ms = i-1, ms>>8 {
		from[i] = byte(ms)
	}
	rows, err := a.store.Pool().Query(ctx, selectNearestRuns, job, from, domain.States)
	if err != nil {
		return fmt.Errorf("look for the nearest runs: %w", err)
	}
	var later bool
	var n NearRun
	_, err = pgx.ForEachRow(rows, []any{&later, &n.RunID, &n.At, &n.State}, func() error {
		near := n
		near.At = near.At.UTC()
		if later {
			x.RunAfter = &near
		} else {
			x.RunBefore = &near
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for the nearest runs: %w", err)
	}
	return nil
}

// nearRuns says which runs there are about then.
func (x *Explanation) nearRuns() string {
	say := func(n *NearRun) string { return fmt.Sprintf("%s of %s (%s)", n.RunID, clock(n.At), n.State) }
	switch {
	case x.RunBefore != nil && x.RunAfter != nil:
		return " Its nearest runs are " + say(x.RunBefore) + " and " + say(x.RunAfter) + "."
	case x.RunBefore != nil:
		return " Its last run before is " + say(x.RunBefore) + "."
	case x.RunAfter != nil:
		return " Its first run after is " + say(x.RunAfter) + "."
	}
	return ""
}

func due(set *schedule.Set, at time.Time) bool {
	if set == nil {
		return false
	}
	f, ok := set.Next(at.Add(-time.Nanosecond))
	return ok && f.At.Equal(at)
}

func skipSentence(s skipped, spec domain.JobSpec) string {
	switch s.Reason {
	case domain.SkipMisfire:
		if spec.Misfire == domain.MisfireSkip {
			return "It was missed by more than a minute, and the job's misfire policy is skip."
		}
		return "It was missed by more than a minute, and with misfire latest only the newest missed instant runs."
	case domain.SkipCatchupWindow:
		return fmt.Sprintf("It was missed by more than the job's catch-up window of %s.", spec.CatchupWindow)
	case domain.SkipMaxCatchup:
		return fmt.Sprintf("More instants were missed than the job makes up for (max_catchup %d); the newest were kept.", spec.MaxCatchup)
	case domain.SkipCivilTimeRan:
		return "The same wall time had already run: new zone rules moved it to this instant."
	}
	return "It was skipped: " + s.Reason + "."
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%q)", reason)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
