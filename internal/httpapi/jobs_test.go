package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
)

func TestJobLifecycle(t *testing.T) {
	s := newSite(t)
	made := s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "report", "kind": "noop", "schedule": "30 2 * * *", "time_zone": "America/New_York"}`)
	if made.Header.Get("ETag") != `"1"` || made.Header.Get("Location") != "/v1/jobs/report" {
		t.Errorf("headers %v", made.Header)
	}
	var applied appliedJob
	s.want(http.StatusOK, "POST", "/v1/jobs", `{"name": "report", "kind": "noop", "schedule": "30 2 * * *", "time_zone": "America/New_York"}`).into(t, &applied)
	if applied.Action != client.ActionUnchanged || applied.Job.Version != 1 {
		t.Errorf("the same again: %+v", applied)
	}
	s.want(http.StatusOK, "PUT", "/v1/jobs/report", `{"kind": "noop", "priority": 3}`).into(t, &applied)
	if applied.Action != client.ActionUpdate || !slices.Equal(applied.Changed, []string{"schedules", "time_zone", "priority"}) || applied.Job.Spec.Priority != 3 {
		t.Errorf("update: %+v", applied)
	}
	var done commandedJob
	s.want(http.StatusOK, "POST", "/v1/jobs/report/pause", `{"reason": "holidays"}`).into(t, &done)
	if !done.Changed || done.Job.State != client.Paused || done.Job.PauseReason != "holidays" {
		t.Errorf("pause: %+v", done)
	}
	s.want(http.StatusOK, "POST", "/v1/jobs/report/pause", "").into(t, &done)
	if done.Changed {
		t.Errorf("pause again: %+v", done)
	}
	s.want(http.StatusOK, "POST", "/v1/jobs/report/resume", "").into(t, &done)
	if done.Job.State != client.Active {
		t.Errorf("resume: %+v", done)
	}
	s.want(http.StatusOK, "DELETE", "/v1/jobs/report?reason=over", "").into(t, &done)
	if done.Job.State != client.Archived {
		t.Errorf("archive: %+v", done)
	}
	s.refused(kindArchived, "POST", "/v1/jobs/report/pause", "")
	s.refused(kindArchived, "POST", "/v1/jobs/report/runs", "")
	var history eventList
	s.want(http.StatusOK, "GET", "/v1/jobs/report/history", "").into(t, &history)
	var types []string
	for _, e := range history.Events {
		types = append(types, e.Type)
		if e.Actor != loopbackActor {
			t.Errorf("%s by %s", e.Type, e.Actor)
		}
	}
	if want := []string{"JobArchived", "JobResumed", "JobPaused", "JobUpdated", "JobCreated"}; !slices.Equal(types, want) {
		t.Errorf("history %v, want %v", types, want)
	}
	if s.woken.jobs != 5 {
		t.Errorf("the engine was told of %d changes", s.woken.jobs)
	}
	s.want(http.StatusCreated, "PUT", "/v1/jobs/report", `{"kind": "noop"}`)
}

func TestDefinitionIsRefusedWhole(t *testing.T) {
	s := newSite(t)
	p := s.refused(kindDefinition, "POST", "/v1/jobs", `{"name": "Bad Name", "kind": "noop",
  "schedule": "61 * * * *", "retry": {"max_attempts": 0}, "colour": "red"}`)
	var at []string
	for _, v := range p.Errors {
		at = append(at, v.Location)
		if v.Line == 0 || v.Message == "" {
			t.Errorf("violation without place or reason: %+v", v)
		}
	}
	slices.Sort(at)
	if want := []string{"body.colour", "body.name", "body.retry.max_attempts", "body.schedule"}; !slices.Equal(at, want) {
		t.Errorf("violations at %v, want %v", at, want)
	}
	s.refused(kindDefinition, "PUT", "/v1/jobs/other", `{"name": "report", "kind": "noop"}`)
	s.refused(kindMediaType, "POST", "/v1/jobs", `name=report`, "Content-Type", "application/x-www-form-urlencoded")
	s.want(http.StatusCreated, "POST", "/v1/jobs", "name: report\nkind: noop\n", "Content-Type", "application/yaml")
	var list jobList
	s.want(http.StatusOK, "GET", "/v1/jobs", "").into(t, &list)
	if len(list.Jobs) != 1 {
		t.Errorf("%d jobs, want only the one that was right", len(list.Jobs))
	}
}

func TestETags(t *testing.T) {
	s := newSite(t)
	s.job("report")
	got := s.want(http.StatusOK, "GET", "/v1/jobs/report", "")
	tag := got.Header.Get("ETag")
	if again := s.want(http.StatusNotModified, "GET", "/v1/jobs/report", "", "If-None-Match", `"9", W/`+tag); len(again.body) > 0 || again.Header.Get("ETag") != tag {
		t.Errorf("304 with %q, %v", again.body, again.Header)
	}
	s.want(http.StatusOK, "PUT", "/v1/jobs/report", `{"kind": "noop", "priority": 1}`, "If-Match", tag)
	for method, path := range map[string]string{"PUT": "/v1/jobs/report", "POST": "/v1/jobs/report/pause", "DELETE": "/v1/jobs/report"} {
		body := ""
		if method == "PUT" {
			body = `{"kind": "noop", "priority": 2}`
		}
		s.refused(kindVersion, method, path, body, "If-Match", tag)
	}
	s.want(http.StatusOK, "GET", "/v1/jobs/report", "", "If-None-Match", tag)
	s.refused(kindVersion, "PUT", "/v1/jobs/new", `{"kind": "noop"}`, "If-Match", "*")
	s.refused(kindMalformed, "POST", "/v1/jobs/report/pause", "", "If-Match", "2")
	s.want(http.StatusOK, "POST", "/v1/jobs/report/pause", "", "If-Match", `"2"`)
	s.want(http.StatusOK, "PUT", "/v1/jobs/report", `{"kind": "noop"}`, "If-Match", "*")
}

// Several have read the same version before any of them writes: one wins, the
// others are told. Without the precondition they follow one another.
func TestConcurrentReplacements(t *testing.T) {
	s := newSite(t)
	s.job("report")
	const writers = 4
	race := func(headers ...string) (won, lost int) {
		t.Helper()
		tx, err := s.store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		if _, err := tx.Exec(t.Context(), "SELECT FROM jobs WHERE name = 'report' FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		statuses := make(chan int, writers)
		for i := range writers {
			go func() {
				statuses <- s.do("PUT", "/v1/jobs/report", fmt.Sprintf(`{"kind": "noop", "tags": ["t%d", "h%d"]}`, i, len(headers)), headers...).StatusCode
			}()
		}
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if s.count("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == writers {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the writers do not come to the lock")
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range writers {
			switch status := <-statuses; status {
			case http.StatusOK:
				won++
			case http.StatusPreconditionFailed:
				lost++
			default:
				t.Errorf("status %d", status)
			}
		}
		return won, lost
	}
	if won, lost := race("If-Match", `"1"`); won != 1 || lost != writers-1 {
		t.Errorf("%d replaced version 1, %d were told", won, lost)
	}
	if won, lost := race(); won != writers || lost != 0 {
		t.Errorf("without a precondition %d went through, %d did not", won, lost)
	}
}

func TestJobOfAFileIsLeftToIt(t *testing.T) {
	s := newSite(t)
	spec := domain.JobSpec{
		Name: "owned", TimeZone: "UTC", Queue: "default", Kind: "noop", Retry: domain.DefaultRetry(), Overlap: domain.OverlapSkip,
		Misfire: domain.MisfireLatest, Priority: 5, Source: "crontab:/etc/crontab",
	}
	if _, err := s.store.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: "owned", Do: domain.ApplyJob{Spec: spec}}}); err != nil {
		t.Fatal(err)
	}
	if p := s.refused(kindOwned, "PUT", "/v1/jobs/owned", `{"kind": "noop"}`); !strings.Contains(p.Detail, "crontab:/etc/crontab") {
		t.Errorf("the owner is not named: %s", p.Detail)
	}
}

func TestJobPagesAreStable(t *testing.T) {
	s := newSite(t)
	for i := range 5 {
		s.job(fmt.Sprintf("job-%d", i))
	}
	var names []string
	next := "/v1/jobs?limit=2"
	for page := 0; next != ""; page++ {
		got := s.want(http.StatusOK, "GET", next, "")
		var list jobList
		got.into(t, &list)
		for _, j := range list.Jobs {
			names = append(names, j.Name)
		}
		s.job(fmt.Sprintf("job-0-%d", page)) // before what comes
		next = linked(t, got)
	}
	if want := []string{"job-0", "job-1", "job-2", "job-3", "job-4"}; !slices.Equal(names, want) {
		t.Errorf("pages gave %v, want %v", names, want)
	}
	cursor := cursor{List: "jobs archived=false", After: "job-1"}.encode()
	s.want(http.StatusOK, "GET", "/v1/jobs?cursor="+cursor, "")
	s.refused(kindCursor, "GET", "/v1/jobs?archived=true&cursor="+cursor, "")
	s.refused(kindCursor, "GET", "/v1/jobs/job-1/history?cursor="+cursor, "")
	s.refused(kindCursor, "GET", "/v1/jobs?cursor=e30", "")
}

// linked is the target of Link: rel="next".
func linked(t *testing.T, a answer) string {
	t.Helper()
	link := a.Header.Get("Link")
	if link == "" {
		return ""
	}
	target, ok := strings.CutSuffix(link, `>; rel="next"`)
	if !ok || target[0] != '<' {
		t.Fatalf("Link: %s", link)
	}
	return target[1:]
}

func TestHistoryPages(t *testing.T) {
	s := newSite(t)
	s.job("report")
	for i := range 3 {
		s.want(http.StatusOK, "PUT", "/v1/jobs/report", fmt.Sprintf(`{"kind": "noop", "priority": %d}`, i))
	}
	var versions []int
	for next := "/v1/jobs/report/history?limit=2"; next != ""; {
		got := s.want(http.StatusOK, "GET", next, "")
		var list eventList
		got.into(t, &list)
		for _, e := range list.Events {
			versions = append(versions, e.Version)
		}
		next = linked(t, got)
	}
	if !slices.Equal(versions, []int{4, 3, 2, 1}) {
		t.Errorf("versions %v", versions)
	}
}

func TestAnswersAboutAJob(t *testing.T) {
	s := newSite(t)
	s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "report", "kind": "noop", "schedule": "30 2 * * *", "time_zone": "America/New_York"}`)
	var preview struct {
		Description string `json:"description"`
		Fires       []struct {
			At      time.Time `json:"at"`
			Nominal string    `json:"nominal"`
		} `json:"fires"`
	}
	s.want(http.StatusOK, "GET", "/v1/jobs/report/preview?after=2026-03-07T00:00:00Z&n=3", "").into(t, &preview)
	if len(preview.Fires) != 3 || preview.Fires[1].Nominal != "2026-03-08T02:30" || preview.Description == "" {
		t.Errorf("preview %+v", preview)
	}
	s.refused(kindInvalid, "GET", "/v1/jobs/report/preview?n=10001", "")
	s.refused(kindInvalid, "GET", "/v1/jobs/report/preview?after=2026-03-07T00:00:00Z&until=2026-03-06T00:00:00Z", "")

	var why struct{ Verdict, Summary string }
	s.want(http.StatusOK, "GET", "/v1/jobs/report/explain?at=2020-01-01T00:00:00Z", "").into(t, &why)
	if why.Verdict != "not_created" {
		t.Errorf("explanation %+v", why)
	}
	if p := s.refused(kindInvalid, "GET", "/v1/jobs/report/explain", ""); len(p.Errors) != 1 || p.Errors[0].Location != "query.at" {
		t.Errorf("explain without an instant: %+v", p)
	}
	var coverage struct{ Missing, Unexpected *int }
	s.want(http.StatusOK, "GET", "/v1/jobs/report/coverage?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z", "").into(t, &coverage)
	if coverage.Missing == nil || *coverage.Missing != 0 {
		t.Errorf("coverage %+v", coverage)
	}
	s.refused(kindInvalid, "GET", "/v1/jobs/report/coverage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "")
	for _, path := range []string{"preview", "history", "explain?at=2026-01-01T00:00:00Z", "coverage?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z"} {
		s.refused(kindNotFound, "GET", "/v1/jobs/none/"+path, "")
	}
	s.refused(kindNotFound, "GET", "/v1/jobs/none", "")
}

func TestBackfill(t *testing.T) {
	s := newSite(t)
	s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "report", "kind": "noop", "schedule": "0 * * * *"}`)
	body := `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T05:00:00Z", "limit": 4}`
	var got client.Backfilled
	s.want(http.StatusOK, "POST", "/v1/jobs/report/backfill", body).into(t, &got)
	if got.Created != 4 || got.Done {
		t.Errorf("first part %+v", got)
	}
	s.want(http.StatusOK, "POST", "/v1/jobs/report/backfill", strings.Replace(body, "4}", "10}", 1)).into(t, &got)
	if got.Created != 2 || !got.Done {
		t.Errorf("the whole %+v", got)
	}
	s.refused(kindBackfill, "POST", "/v1/jobs/report/backfill", `{"from": "2026-01-01T00:00:00Z", "to": "2099-01-01T00:00:00Z"}`)
	if p := s.refused(kindInvalid, "POST", "/v1/jobs/report/backfill", `{"form": "2026-01-01T00:00:00Z", "limit": 0}`); len(p.Errors) < 3 {
		t.Errorf("not every violation is listed: %+v", p.Errors)
	}
}
