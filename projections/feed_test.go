package projections

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// feedRecorder is a publisher that keeps what it stored and refuses what it is told
// to, a number of times or for good.
type feedRecorder struct {
	mu      sync.Mutex
	stored  []CloudEvent
	subject []string
	refuse  func(e CloudEvent) error
}

type refusals map[int]error

func (refusals) Error() string { return "some messages were refused" }

var errTooLarge = errors.New("too large")

func (r *feedRecorder) Publish(_ string, messages ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := refusals{}
	for i, m := range messages {
		var e CloudEvent
		if err := json.Unmarshal(m.Payload, &e); err != nil {
			failed[i] = err
			continue
		}
		if r.refuse != nil {
			if err := r.refuse(e); err != nil {
				failed[i] = err
				continue
			}
		}
		r.stored, r.subject = append(r.stored, e), append(r.subject, m.Metadata["subject"])
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

func (*feedRecorder) Close() error { return nil }

func (*feedRecorder) Failed(err error, n int) map[int]error {
	if r, ok := errors.AsType[refusals](err); ok {
		return r
	}
	all := map[int]error{}
	for i := range n {
		all[i] = err
	}
	return all
}

func (*feedRecorder) Permanent(err error) bool { return errors.Is(err, errTooLarge) }

// somethingHappens makes a job and a few runs with a history.
func (w *world) somethingHappens(t *testing.T, runs int) {
	t.Helper()
	w.happens(t, "feed", runs)
}

func (w *world) happens(t *testing.T, job string, runs int) {
	t.Helper()
	s := domain.JobSpec{Name: job, TimeZone: "UTC", Queue: "default", Kind: "noop", Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow,
		Misfire: domain.MisfireLatest, MaxCatchup: 100, Priority: 5}
	if _, err := w.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: job, Do: domain.ApplyJob{Spec: s}}}); err != nil {
		t.Fatal(err)
	}
	requests := make([]eventstore.RunRequest, runs)
	for i := range requests {
		requests[i].Job = job
	}
	if _, err := w.Request(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	c, err := w.Claim(t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: runs, Lease: time.Minute}, noOutbox{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Runs {
		_, err := w.Execute(t.Context(), []eventstore.Command{
			{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}},
			{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) feed(r *feedRecorder, owner string) *Feed {
	return NewFeed(w.Store, FeedConfig{Publisher: r, Failures: r, Owner: owner, Limit: 20, Deployment: "test"})
}

// drain steps the feed until it is at the end of the log.
func drain(t *testing.T, f *Feed) {
	t.Helper()
	for {
		did, _, err := f.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !did {
			return
		}
	}
}

// inOrder checks that the first publication of each stream's events is in the
// order of their versions, and counts distinct events.
func inOrder(t *testing.T, events []CloudEvent) (distinct int) {
	t.Helper()
	last := map[string]int{}
	seen := map[string]bool{}
	for _, e := range events {
		if seen[e.Source+e.ID] {
			continue
		}
		seen[e.Source+e.ID] = true
		var version int
		if _, err := fmt.Sscan(e.Sequence, &version); err != nil || version != last[e.Subject]+1 {
			t.Errorf("%s: version %s was published after version %d", e.Subject, e.Sequence, last[e.Subject])
		}
		last[e.Subject] = version
	}
	return len(seen)
}

func TestFeedPublishesEveryEventInOrder(t *testing.T) {
	w := newWorld(t)
	w.somethingHappens(t, 30)
	r := &feedRecorder{}
	drain(t, w.feed(r, "engine-1"))
	if n := inOrder(t, r.stored); n != 1+30*4 || len(r.stored) != n {
		t.Errorf("%d events published, %d of them distinct, want %d", len(r.stored), n, 1+30*4)
	}
	for i, e := range r.stored {
		if token := strings.TrimSuffix(strings.TrimPrefix(e.Type, "daybook."), ".v1"); !strings.HasSuffix(r.subject[i], "."+strings.Replace(token, ".", "-", 1)) {
			t.Errorf("%s on subject %s", e.Type, r.subject[i])
		}
	}
	// Another owner goes on at the checkpoint, and what is published is not
	// published again.
	w.somethingHappens(t, 1)
	other := w.feed(r, "engine-2")
	if did, _, err := other.Step(t.Context()); did || err != nil {
		t.Errorf("a second feed published beside the first, %v", err)
	}
	w.exec(t, "UPDATE checkpoints SET lease_until = now() - interval '1 s' WHERE name = 'event_feed'")
	drain(t, other)
	if n := inOrder(t, r.stored); n != 1+31*4 || len(r.stored) != n {
		t.Errorf("%d events published, %d of them distinct, want %d", len(r.stored), n, 1+31*4)
	}
}

func TestFailedEventHoldsBackItsStreamOnly(t *testing.T) {
	w := newWorld(t)
	w.somethingHappens(t, 4)
	r := &feedRecorder{}
	victim, refusedTimes := "", 0
	r.refuse = func(e CloudEvent) error {
		if victim == "" && e.Type == "daybook.run.claimed.v1" {
			victim = e.ID
		}
		if e.ID == victim && refusedTimes < 3 {
			refusedTimes++
			return errors.New("no answer")
		}
		return nil
	}
	f := w.feed(r, "engine-1")
	if _, _, err := f.Step(t.Context()); err == nil {
		t.Fatal("a step with a failed event says nothing")
	}
	if n := len(r.stored); n != 1+4*4-3 {
		t.Errorf("%d events published beside the stream that is held back, want %d", n, 1+4*4-3)
	}
	for range 3 {
		_, _, _ = f.Step(t.Context())
	}
	drain(t, f)
	if n := inOrder(t, r.stored); n != 1+4*4 || len(r.stored) != n {
		t.Errorf("%d published, %d distinct, want %d", len(r.stored), n, 1+4*4)
	}
}

func TestEventThatCannotBeCarriedIsAnnouncedWithoutItsData(t *testing.T) {
	w := newWorld(t)
	w.somethingHappens(t, 2)
	r := &feedRecorder{refuse: func(e CloudEvent) error {
		if e.Type == "daybook.run.scheduled.v1" && e.Data != nil {
			return errTooLarge
		}
		return nil
	}}
	drain(t, w.feed(r, "engine-1"))
	if n := inOrder(t, r.stored); n != 1+2*4 {
		t.Errorf("%d events, want %d: the versions must have no gap", n, 1+2*4)
	}
	for _, e := range r.stored {
		if (e.Type == "daybook.run.scheduled.v1") != (e.Omitted == "too_large") {
			t.Errorf("%s: omitted %q", e.Type, e.Omitted)
		}
	}
}

// The rules of CloudEvents 1.0 that a JSON event can break.
func TestCloudEventsAreValid(t *testing.T) {
	w := newWorld(t)
	w.somethingHappens(t, 1)
	r := &feedRecorder{}
	drain(t, w.feed(r, "engine-1"))
	attribute := regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	for _, e := range r.stored {
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			if name != "data" && !attribute.MatchString(name) {
				t.Errorf("attribute %q is not of lower-case letters and digits", name)
			}
			if name != "data" && (len(value) < 3 || value[0] != '"') {
				t.Errorf("attribute %s is %s, want a string that is not empty", name, value)
			}
		}
		for _, required := range []string{"specversion", "id", "source", "type"} {
			if _, ok := fields[required]; !ok {
				t.Errorf("%s is missing", required)
			}
		}
		if e.SpecVersion != "1.0" {
			t.Errorf("specversion %s", e.SpecVersion)
		}
		if u, err := url.Parse(e.Source); err != nil || u.String() != "/daybook/test/1" {
			t.Errorf("source %q is no URI reference of this log", e.Source)
		}
		if _, err := time.Parse(time.RFC3339, e.Time); err != nil {
			t.Errorf("time: %v", err)
		}
	}
}

func TestEventTokens(t *testing.T) {
	for typ, want := range map[string]string{"RunClaimed": "claimed", "RunRetryScheduled": "retry-scheduled", "JobCreated": "created", "FiresSkipped": "fires-skipped"} {
		c := domain.CategoryRun
		if !strings.HasPrefix(typ, "Run") {
			c = domain.CategoryJob
		}
		if got := eventToken(c, typ); got != want {
			t.Errorf("%s: %s, want %s", typ, got, want)
		}
	}
}
