package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
)

// detail says in a line what an event brought, beyond its type.
func (a *app) detail(e client.Event) string {
	event, err := domain.DecodeEvent(e.Type, 1, e.Data)
	if err != nil {
		return string(e.Data) // of a newer version
	}
	switch e := event.(type) {
	case domain.JobEvent:
		return a.jobDetail(e)
	case domain.RunEvent:
		return a.runDetail(e)
	}
	return ""
}

func (a *app) jobDetail(event domain.JobEvent) string {
	switch e := event.(type) {
	case domain.JobCreated:
		return because(definedAs(e.Spec), e.Reason)
	case domain.JobUpdated:
		return because("changed "+strings.Join(e.Changed, ", "), e.Reason)
	case domain.JobPaused:
		return e.Reason
	case domain.JobResumed:
		return e.Reason
	case domain.JobArchived:
		return e.Reason
	case domain.FiresSkipped:
		return fmt.Sprintf("%s from %s to %s: %s", count(e.Count, "instant"), a.clock(e.From), a.clock(e.To), e.Reason)
	case domain.RunsRetired:
		if !e.Last {
			return fmt.Sprintf("runs of %s, in part", e.Month)
		}
		return fmt.Sprintf("%s of %s to %s", count(e.Runs, "run"), e.Month, e.File)
	case domain.ZoneRulesChanged:
		return fmt.Sprintf("new rules of %s, next %s", e.Zone, a.clockOr(e.NextFire, "never"))
	}
	return ""
}

func definedAs(s domain.JobSpec) string {
	if len(s.Schedules) == 0 {
		return s.Kind + " on request"
	}
	return s.Kind + " at " + strings.Join(s.Schedules, " | ") + " " + s.TimeZone
}

func because(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

func (a *app) runDetail(event domain.RunEvent) string {
	switch e := event.(type) {
	case domain.RunScheduled:
		text := fmt.Sprintf("%s by %s, due %s", e.Job, e.Origin, a.clock(e.ReadyAt))
		if e.RetryOf != nil {
			text += ", retry of " + e.RetryOf.String()
		}
		return because(text, e.Reason)
	case domain.RunClaimed:
		return fmt.Sprintf("dispatch %d, lease to %s", e.Dispatch, a.clock(e.LeaseUntil))
	case domain.RunStarted:
		text := fmt.Sprintf("attempt %d on %s", e.Attempt, e.Worker)
		if e.Deadline != nil {
			text += ", until " + a.clock(*e.Deadline)
		}
		return text
	case domain.RunReleased:
		return fmt.Sprintf("%s, again from %s", cmp.Or(e.Reason, string(e.Op)), a.clock(e.ReadyAt))
	case domain.RunRetryScheduled:
		return fmt.Sprintf("attempt %d: %s; again from %s", e.Attempt, errorText(e.Error), a.clock(e.ReadyAt))
	case domain.RunSnoozed:
		return fmt.Sprintf("attempt %d refunded, again from %s", e.Attempt, a.clock(e.ReadyAt))
	case domain.RunInterrupted:
		return fmt.Sprintf("attempt %d refunded: %s; again from %s", e.Attempt, e.Reason, a.clock(e.ReadyAt))
	case domain.RunCancelRequested:
		return e.Reason
	case domain.RunSucceeded:
		return fmt.Sprintf("attempt %d", e.Attempt)
	case domain.RunFailed:
		return fmt.Sprintf("attempt %d: %s", e.Attempt, errorText(e.Error))
	case domain.RunCancelled:
		return e.Reason
	case domain.RunSkipped:
		if e.BlockedBy != nil {
			return e.Reason + ", by run " + e.BlockedBy.String()
		}
		return e.Reason
	}
	return ""
}

func errorText(e domain.RunError) string {
	if e.Type == "" {
		return e.Message
	}
	return e.Type + ": " + e.Message
}
