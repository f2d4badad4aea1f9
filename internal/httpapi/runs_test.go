package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
)

func TestRunLifecycle(t *testing.T) {
	s := newSite(t)
	s.job("report")
	var asked client.Triggered
	made := s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{"key": "k1", "args": {"n": 12345678901234567890}}`)
	made.into(t, &asked)
	path := "/v1/runs/" + asked.RunID.String()
	if !asked.Created || asked.Key != "k1" || made.Header.Get("Location") != path {
		t.Errorf("%+v at %s", asked, made.Header.Get("Location"))
	}
	s.want(http.StatusOK, "POST", "/v1/jobs/report/runs", `{"key": "k1"}`).into(t, &asked)
	if asked.Created {
		t.Error("the key made a second run")
	}
	got := s.want(http.StatusOK, "GET", path, "")
	if !strings.Contains(string(got.body), "12345678901234567890") {
		t.Errorf("a number lost digits: %s", got.body)
	}
	var before projections.RunDetail
	got.into(t, &before)
	if before.State != domain.Pending || got.Header.Get("ETag") != `"1"` {
		t.Errorf("state %s, ETag %s", before.State, got.Header.Get("ETag"))
	}
	s.want(http.StatusNotModified, "GET", path, "", "If-None-Match", `"1"`)
	s.refused(kindNotFinished, "POST", path+"/retry", "")
	s.refused(kindNotFound, "GET", path+"/output", "")
	s.finish("default", "noop")
	var after projections.RunDetail
	s.want(http.StatusOK, "GET", path, "").into(t, &after)
	if after.State != domain.Succeeded {
		t.Errorf("state %s after it was carried out", after.State)
	}
	var then projections.RunDetail
	s.want(http.StatusOK, "GET", path+"?as_of="+url.QueryEscape(before.ChangedAt.Format(time.RFC3339Nano)), "").into(t, &then)
	if then.State != domain.Pending || then.Version != 1 {
		t.Errorf("as of its beginning it was %s in version %d", then.State, then.Version)
	}
	s.refused(kindNotFound, "GET", path+"?as_of=2020-01-01T00:00:00Z", "")
	begun := "?as_of=" + url.QueryEscape(before.ChangedAt.Format(time.RFC3339Nano))
	var lanes queueList
	s.want(http.StatusOK, "GET", "/v1/queues"+begun, "").into(t, &lanes)
	if len(lanes.Queues) != 1 || lanes.Queues[0].Due != 1 {
		t.Errorf("lanes as of its beginning: %+v", lanes)
	}
	var job client.Job
	s.want(http.StatusOK, "GET", "/v1/jobs/report"+begun, "").into(t, &job)
	if job.Name != "report" || job.State != client.Active || !job.MaterializedThrough.IsZero() {
		t.Errorf("job as of its beginning: %+v", job)
	}
	s.refused(kindNotFound, "GET", "/v1/jobs/report?as_of=2020-01-01T00:00:00Z", "")
	var l evidence.Lineage
	s.want(http.StatusOK, "GET", path+"/lineage", "").into(t, &l)
	if l.Job != "report" || l.Definition == nil || l.Run.Key != "k1" || len(l.Attempts) != 1 {
		t.Errorf("lineage %+v", l)
	}
	var events eventList
	s.want(http.StatusOK, "GET", path+"/events", "").into(t, &events)
	var types []string
	for _, e := range events.Events {
		types = append(types, e.Type)
	}
	if want := []string{"RunScheduled", "RunClaimed", "RunStarted", "RunSucceeded"}; !slices.Equal(types, want) {
		t.Errorf("events %v, want %v", types, want)
	}
	var output client.Output
	wrote := s.want(http.StatusOK, "GET", path+"/output?attempt=1", "")
	wrote.into(t, &output)
	if output.Attempt != 1 || !strings.Contains(string(output.Result), "12345678901234567890") {
		t.Errorf("output %s", wrote.body)
	}
	s.refused(kindFinished, "POST", path+"/cancel", "")
	var again client.Triggered
	s.want(http.StatusCreated, "POST", path+"/retry", `{"key": "again", "reason": "to see"}`).into(t, &again)
	if again.RunID == asked.RunID || !again.Created {
		t.Errorf("retry %+v", again)
	}
	s.want(http.StatusOK, "POST", path+"/retry", `{"key": "again"}`)
	if !slices.Contains(s.woken.queues, "default") {
		t.Error("the engine was not told of the retry")
	}
}

func TestCancel(t *testing.T) {
	s := newSite(t)
	s.job("report")
	path := "/v1/runs/" + s.run("report").String()
	var got client.Cancelled
	s.want(http.StatusOK, "POST", path+"/cancel", `{"reason": "not needed"}`).into(t, &got)
	if len(s.woken.cancelled) != 0 {
		t.Errorf("workers were told of a run that none of them had: %v", s.woken.cancelled)
	}
	if got.State != domain.Cancelled || got.Repeat {
		t.Errorf("%+v", got)
	}
	var run projections.RunDetail
	s.want(http.StatusOK, "GET", path, "").into(t, &run)
	if run.Reason != "not needed" {
		t.Errorf("reason %q", run.Reason)
	}
	started := s.run("report")
	s.start("default", "noop")
	s.want(http.StatusOK, "POST", "/v1/runs/"+started.String()+"/cancel", "").into(t, &got)
	if got.State != domain.Running || !slices.Equal(s.woken.cancelled, []uuid.UUID{started}) {
		t.Errorf("cancelled while it runs: %+v; workers were told of %v", got, s.woken.cancelled)
	}
	unknown := "/v1/runs/" + uuid.Must(uuid.NewV7()).String()
	for _, what := range []string{"", "/events", "/output"} {
		s.refused(kindNotFound, "GET", unknown+what, "")
	}
	s.refused(kindNotFound, "POST", unknown+"/cancel", "")
	s.refused(kindNotFound, "POST", unknown+"/retry", "")
	if p := s.refused(kindInvalid, "GET", "/v1/runs/seven", ""); len(p.Errors) != 1 || p.Errors[0].Location != "path.id" {
		t.Errorf("an id that is none: %+v", p)
	}
}

func TestRunPagesAreStable(t *testing.T) {
	s := newSite(t)
	s.job("report")
	s.job("other")
	want := map[uuid.UUID]bool{}
	for range 7 {
		want[s.run("report")] = true
		s.run("other")
	}
	s.project()
	seen := map[uuid.UUID]bool{}
	for next := "/v1/runs?job=report&limit=2&state=pending,succeeded"; next != ""; {
		got := s.want(http.StatusOK, "GET", next, "")
		var page projections.RunPage
		got.into(t, &page)
		for _, r := range page.Runs {
			if seen[r.RunID] || !want[r.RunID] {
				t.Errorf("run %s is shown twice or was not wanted", r.RunID)
			}
			seen[r.RunID] = true
		}
		s.run("report") // newer than all of the list
		s.project()
		next = linked(t, got)
	}
	if len(seen) != len(want) {
		t.Errorf("%d of %d runs", len(seen), len(want))
	}
}

func TestRunFilters(t *testing.T) {
	s := newSite(t)
	s.job("report")
	id := s.run("report")
	s.project()
	count := func(query string) int {
		var page projections.RunPage
		s.want(http.StatusOK, "GET", "/v1/runs?"+query, "").into(t, &page)
		return len(page.Runs)
	}
	for query, want := range map[string]int{
		"": 1, "queue=default": 1, "queue=other": 0, "kind=noop": 1, "kind=exec": 0, "state=failed": 0, "job=other": 0, "text=boom": 0,
		"since=2020-01-01T00:00:00Z": 1, "until=2020-01-01T00:00:00Z": 0, "since=2020-01-01T00:00:00%2B02:00&state=pending": 1,
	} {
		if got := count(query); got != want {
			t.Errorf("%s: %d runs, want %d", query, got, want)
		}
	}
	for query, at := range map[string]string{
		"limit=0": "query.limit", "limit=501": "query.limit", "limit=x": "query.limit", "state=done": "query.state", "since=yesterday": "query.since",
		"jobs=report": "query.jobs", "text=a%00b": "query.text", "since=2020-01-02T00:00:00Z&until=2020-01-01T00:00:00Z": "query.until",
	} {
		if p := s.refused(kindInvalid, "GET", "/v1/runs?"+query, ""); len(p.Errors) != 1 || p.Errors[0].Location != at {
			t.Errorf("%s: %+v, want a violation at %s", query, p.Errors, at)
		}
	}
	s.refused(kindCursor, "GET", "/v1/runs?cursor=nonsense", "")
	_ = id
}

func TestBatch(t *testing.T) {
	s := newSite(t)
	s.job("report")
	var got struct {
		Created, Refused int
		Runs             []batchedRun
	}
	s.want(http.StatusOK, "POST", "/v1/jobs/report/runs:batch", `{"runs": [{"key": "a"}, {"key": "a"}, {}, {"at": "2099-01-01T00:00:00Z"}, {"args": "\u0000"}]}`).into(t, &got)
	if got.Created != 2 || got.Refused != 2 || *got.Runs[0].RunID != *got.Runs[1].RunID || got.Runs[1].Created {
		t.Errorf("%+v", got)
	}
	if p := got.Runs[3].Problem; p == nil || len(p.Errors) != 1 || p.Errors[0].Location != "body.runs[3].at" {
		t.Errorf("a run in 2099: %+v", p)
	}
	s.refused(kindNotFound, "POST", "/v1/jobs/none/runs:batch", `{"runs": [{}]}`)
	s.refused(kindInvalid, "POST", "/v1/jobs/report/runs:batch", `{"runs": []}`)
	s.refused(kindInvalid, "POST", "/v1/jobs/report/runs:batch", `{"runs": [`+strings.TrimSuffix(strings.Repeat("{},", maxRuns+1), ",")+`]}`)
}

func TestQueuesAndWorkers(t *testing.T) {
	s := newSite(t)
	s.job("report")
	s.run("report")
	s.want(http.StatusOK, "POST", "/v1/work/presence", `{"worker_id": "w-1", "lanes": [{"queue": "default", "kind": "noop"}], "slots": 4, "version": "1", "host": "h"}`)
	var queues struct{ Queues []projections.QueueStats }
	s.want(http.StatusOK, "GET", "/v1/queues", "").into(t, &queues)
	if len(queues.Queues) != 1 || queues.Queues[0].Due != 1 || queues.Queues[0].Slots != 4 {
		t.Errorf("queues %+v", queues)
	}
	var workers struct{ Workers []client.Worker }
	s.want(http.StatusOK, "GET", "/v1/workers", "").into(t, &workers)
	if len(workers.Workers) != 1 || workers.Workers[0].ID != "w-1" || len(workers.Workers[0].Lanes) != 1 {
		t.Errorf("workers %+v", workers)
	}
	if got := s.want(http.StatusOK, "GET", "/v1/events", ""); string(got.body) != "events" {
		t.Errorf("events: %s", got.body)
	}
	if got := s.want(http.StatusOK, "GET", "/metrics", ""); len(got.body) == 0 {
		t.Error("no metrics")
	}
	fault := s.want(http.StatusBadRequest, "POST", "/v1/work/start", `{"worker_id": "w-1", "items": []}`)
	if !strings.Contains(string(fault.body), fmt.Sprintf("%q", "invalid")) {
		t.Errorf("fault of the protocol: %s", fault.body)
	}
}
