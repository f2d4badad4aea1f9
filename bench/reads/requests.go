package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/daybookhq/daybook/domain"
)

// request is something that people and programs ask for. Path gives a path with
// other values each time.
type request struct {
	name string
	path func(*rand.Rand) string
	deep int // pages to go on before it counts
}

func (w *world) job(r *rand.Rand) string { return fmt.Sprintf("job-%05d", r.IntN(w.jobs)) }

func (w *world) anInstant(r *rand.Rand) time.Time { return w.instant(r.IntN(w.instants() - 1)) }

func (w *world) aRun(r *rand.Rand) string {
	return domain.SlotID(domain.JobID(w.job(r)), w.anInstant(r)).String()
}

func at(t time.Time) string { return url.QueryEscape(t.Format(time.RFC3339)) }

// requests are all lists and details of the API.
func (w *world) requests() []request {
	fixed := func(path string) func(*rand.Rand) string { return func(*rand.Rand) string { return path } }
	day := func(r *rand.Rand) string {
		t := w.anInstant(r)
		return "since=" + at(t) + "&until=" + at(t.Add(24*time.Hour))
	}
	states := []string{"failed", "succeeded", "cancelled", "skipped", "running", "pending", "claimed"}
	state := func(r *rand.Rand) string { return "state=" + states[r.IntN(len(states))] }
	queue := func(r *rand.Rand) string { return fmt.Sprintf("queue=queue-%d", r.IntN(10)) }
	kind := func(r *rand.Rand) string { return fmt.Sprintf("kind=kind-%d", r.IntN(20)) }
	runs := func(parts ...func(*rand.Rand) string) func(*rand.Rand) string {
		return func(r *rand.Rand) string {
			var path strings.Builder
			path.WriteString("/v1/runs?")
			for _, p := range parts {
				path.WriteString(p(r) + "&")
			}
			return path.String() + "limit=50"
		}
	}
	job := func(r *rand.Rand) string { return "job=" + w.job(r) }
	text := func(r *rand.Rand) string { return fmt.Sprintf("text=host-%d", r.IntN(500)) }
	all := []request{
		{"jobs", fixed("/v1/jobs?limit=50"), 0},
		{"jobs, page 10", fixed("/v1/jobs?limit=50"), 9},
		{"jobs, 500 a page", fixed("/v1/jobs?limit=500"), 0},
		{"job", func(r *rand.Rand) string { return "/v1/jobs/" + w.job(r) }, 0},
		{"job history", func(r *rand.Rand) string { return "/v1/jobs/" + w.job(r) + "/history" }, 0},
		{"job preview", func(r *rand.Rand) string { return "/v1/jobs/" + w.job(r) + "/preview" }, 0},
		{"explain", func(r *rand.Rand) string { return "/v1/jobs/" + w.job(r) + "/explain?at=" + at(w.anInstant(r)) }, 0},
		{"explain, no instant", func(r *rand.Rand) string {
			return "/v1/jobs/" + w.job(r) + "/explain?at=" + at(w.anInstant(r).Add(time.Minute))
		}, 0},
		{"coverage of a week", func(r *rand.Rand) string {
			t := w.instant(r.IntN(max(1, w.instants()-7*48)))
			return "/v1/jobs/" + w.job(r) + "/coverage?from=" + at(t) + "&to=" + at(t.Add(7*24*time.Hour))
		}, 0},
		{"run", func(r *rand.Rand) string { return "/v1/runs/" + w.aRun(r) }, 0},
		{"run as of", func(r *rand.Rand) string { return "/v1/runs/" + w.aRun(r) + "?as_of=" + at(w.now) }, 0},
		{"run events", func(r *rand.Rand) string { return "/v1/runs/" + w.aRun(r) + "/events" }, 0},
		{"run output", func(r *rand.Rand) string { return "/v1/runs/" + w.aRun(r) + "/output" }, 0},
		{"queues", fixed("/v1/queues"), 0},
		{"workers", fixed("/v1/workers"), 0},
		{"depths", fixed("/v1/stats/queues"), 0},
		{"rates of a queue", func(r *rand.Rand) string { return "/v1/stats/rates?" + queue(r) }, 0},
		{"rates of a job, two days", func(r *rand.Rand) string {
			return "/v1/stats/rates?step=5m&job=" + w.job(r) + "&from=" + at(w.now.Add(-48*time.Hour)) + "&to=" + at(w.now)
		}, 0},
		{"durations of a queue, a day", func(r *rand.Rand) string {
			return "/v1/stats/durations?" + queue(r) + "&from=" + at(w.now.Add(-24*time.Hour)) + "&to=" + at(w.now)
		}, 0},
		{"durations of a job, a month", func(r *rand.Rand) string {
			return "/v1/stats/durations?job=" + w.job(r) + "&from=" + at(w.now.Add(-30*24*time.Hour)) + "&to=" + at(w.now)
		}, 0},
		{"events from the beginning", fixed("/v1/events?limit=100"), 0},
		{"events from the beginning, page 20", fixed("/v1/events?limit=500"), 19},
		{"events after a position", func(r *rand.Rand) string { return fmt.Sprintf("/v1/events?limit=100&after=%d", r.IntN(4*w.runs)) }, 0},
		{"events of the end", fixed("/v1/events?after=now"), 0},
		{"events of a type", fixed("/v1/events?limit=500&type=RunFailed"), 5},
	}
	tag := func(r *rand.Rand) string { return fmt.Sprintf("tag=team-%d", r.IntN(20)) }
	lists := []request{
		{name: "runs", path: runs()},
		{name: "runs by job", path: runs(job)},
		{name: "runs by state", path: runs(state)},
		{name: "runs by queue", path: runs(queue)},
		{name: "runs by time", path: runs(day)},
		{name: "runs by kind", path: runs(kind)},
		{name: "runs by a tag of many", path: runs(tag)},
		{name: "runs by a tag of few", path: runs(fixed("tag=billing"))},
		{name: "runs by tag and state", path: runs(fixed("tag=billing"), state)},
		{name: "runs by text", path: runs(text)},
		{name: "runs by text nobody wrote", path: runs(fixed("text=zebra"))},
		{name: "runs by job and state", path: runs(job, state)},
		{name: "runs by job and text", path: runs(job, text)},
		{name: "runs by queue and state", path: runs(queue, state)},
		{name: "runs by queue and kind", path: runs(queue, kind)},
		{name: "runs by kind and time", path: runs(kind, day)},
		{name: "runs by kind and text", path: runs(kind, text)},
		{name: "runs by state and time", path: runs(state, day)},
		{name: "runs, 500 a page", path: func(*rand.Rand) string { return "/v1/runs?limit=500" }},
	}
	for _, l := range lists {
		all = append(all, l, request{l.name + ", page 20", l.path, 19})
	}
	return all
}

// caller sends requests.
type caller struct {
	base   string
	client *http.Client
}

// get gives the status, the body and the path of the next page.
func (c *caller) get(ctx context.Context, path string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// arrive turns the pages that come before the one that counts.
func (c *caller) arrive(ctx context.Context, q request, r *rand.Rand) (path string, err error) {
	path = q.path(r)
	for range q.deep {
		_, body, err := c.get(ctx, path)
		if err != nil {
			return "", err
		}
		next, err := q.after(path, body)
		if err != nil || next == "" {
			return path, err // the last page is as deep as it gets
		}
		path = next
	}
	return path, nil
}

// after is the path of the page that follows; empty at the end, and for a request
// that looks at first pages.
func (q request) after(path string, body []byte) (string, error) {
	if q.deep == 0 {
		return "", nil
	}
	var page struct {
		Next string `json:"next"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if page.Next == "" {
		return "", nil
	}
	return turned(path, page.Next), nil
}

func turned(path, next string) string {
	u, _ := url.Parse(path) // made here
	v := u.Query()
	name := "cursor"
	if u.Path == "/v1/events" {
		name = "after"
	}
	v.Set(name, next)
	u.RawQuery = v.Encode()
	return u.String()
}
