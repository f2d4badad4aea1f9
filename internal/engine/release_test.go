package engine

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/worker/protocol"
)

// A worker that drains without an answer to its start gives the run back with
// that start's token. If another delivery has started, it stays with that one;
// so it does when the broker refuses the run's message for good.
func TestReleaseLeavesTheAttemptOfAnotherDelivery(t *testing.T) {
	c := &cluster{t: t, db: pgtest.New(t)}
	c.store = c.openStore()
	m := newMetrics(prometheus.NewRegistry(), newWatchdog())
	v := newService(c.store, domain.ExecutionTerms{Lease: time.Minute}, m, slog.New(slog.DiscardHandler))
	c.background("service", v.Run)
	c.apply(noop("report"))
	c.request("report", 1)
	got, err := c.store.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 1, Lease: time.Minute}, outbox.NewWriter("test"))
	if err != nil || len(got.Runs) != 1 {
		t.Fatal(got, err)
	}
	run, token := got.Runs[0], uuid.New()
	start := protocol.StartRequest{WorkerID: "b", Items: []protocol.StartItem{{RunID: run.ID, ClaimID: run.ClaimID, Token: token}}}
	if r, err := v.Start(t.Context(), "", start); err != nil || r[0].Status != protocol.StatusStarted {
		t.Fatal(r, err)
	}
	release := func(token uuid.UUID) protocol.Result {
		t.Helper()
		body, err := json.Marshal(protocol.ReleaseRequest{Items: []protocol.ReleaseItem{{RunID: run.ID, ClaimID: run.ClaimID, Token: token, Reason: "drained"}}})
		if err != nil {
			t.Fatal(err)
		}
		var reply protocol.Reply[protocol.Result]
		if err := json.Unmarshal(v.Handle(t.Context(), protocol.OpRelease, "", body), &reply); err != nil || len(reply.Results) != 1 {
			t.Fatalf("%+v, error %v", reply, err)
		}
		return reply.Results[0]
	}
	if r := release(uuid.New()); r.Status != protocol.StatusRefused || r.Code != protocol.AlreadyStarted {
		t.Errorf("release with the token of another delivery: %+v, want it refused as already started", r)
	}
	if err := (releaser{c.store, m}).Release(t.Context(), []eventstore.Hint{{RunID: run.ID, ClaimID: run.ClaimID}}, "too large"); err != nil {
		t.Error(err)
	}
	done, err := v.Complete(t.Context(), "", protocol.CompleteRequest{Items: []protocol.CompleteItem{{RunID: run.ID, ClaimID: run.ClaimID}}})
	if err != nil || done[0].Status != protocol.StatusRecorded {
		t.Errorf("complete: %+v, error %v, want it recorded, as nothing has ended the attempt", done, err)
	}
}
