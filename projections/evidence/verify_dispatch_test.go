package evidence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// broker is where dispatches lie, as a test says.
type broker struct {
	waiting, sent map[uuid.UUID]bool
	made          time.Time
	err           error
	during        func() // while the broker is asked
}

func (b *broker) Waiting(context.Context) (map[uuid.UUID]bool, error) { return b.waiting, nil }

func (b *broker) Sent(context.Context) (map[uuid.UUID]bool, time.Time, error) {
	if b.during != nil {
		b.during()
	}
	return b.sent, b.made, b.err
}

func TestVerifyLooksForDispatches(t *testing.T) {
	w := newWorld(t)
	made := time.Now().UTC().Truncate(time.Microsecond)
	if _, err := w.Rearm(t.Context(), "dispatch", made, noOutbox{}); err != nil {
		t.Fatal(err)
	}
	s := hourly("report", domain.OverlapAllow)
	s.Schedules = nil
	w.command(t, "report", domain.ApplyJob{Spec: s})
	if _, err := w.Request(t.Context(), make12("report")); err != nil {
		t.Fatal(err)
	}
	runs := w.claim(t, 5)
	start := func(r domain.Run) eventstore.Command {
		return eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w-1", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}}
	}
	w.execute(t, start(runs[4]))
	these := func(runs ...domain.Run) map[uuid.UUID]bool {
		claims := map[uuid.UUID]bool{}
		for _, r := range runs {
			claims[r.ClaimID] = true
		}
		return claims
	}
	verify := func(b *broker) Report {
		t.Helper()
		r, err := New(w.Store).Asking(b).Verify(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Violations {
			if v.Rule != RuleDispatch && v.Rule != RuleProjection {
				t.Errorf("%+v", v)
			}
		}
		return r
	}
	named := func(r Report, run domain.Run) (n int) {
		for _, v := range r.Violations {
			if v.Rule == RuleDispatch && v.Stream == run.ID.String() && strings.Contains(v.What, run.ClaimID.String()) {
				n++
			}
		}
		return n
	}

	r := verify(&broker{waiting: these(runs[0], runs[1]), sent: these(runs[1], runs[2]), made: made})
	if want := (DispatchCheck{Asked: true, Claims: 4, Outbox: 2, Broker: 1, Gone: 1}); r.Dispatch != want || named(r, runs[3]) != 1 {
		t.Errorf("one claim lies nowhere: %+v, %+v", r.Dispatch, r.Violations)
	}

	// Whoever could not ask knows nothing, and says so.
	for _, b := range []*broker{
		{err: errors.New("no answer"), made: made},
		{made: made.Add(time.Second)}, // engines send again what was lost with the stream before
	} {
		if r := verify(b); r.Dispatch.Asked || r.Dispatch.NotAsked == "" || r.Dispatch.Gone != 0 || named(r, runs[0]) != 0 {
			t.Errorf("not asked: %+v", r.Dispatch)
		}
	}
	if r, err := w.Verify(t.Context(), nil); err != nil || r.Dispatch != (DispatchCheck{Claims: 4, NotAsked: ErrNoBroker.Error()}) {
		t.Errorf("nobody to ask: %+v, %v", r.Dispatch, err)
	}

	// What moves meanwhile is no violation: a worker has it, or an engine sends it
	// again, or a broker's new leader has it a moment later.
	b := &broker{made: made, sent: these(runs[1])}
	looks := 0
	b.during = func() {
		switch looks++; looks {
		case 1:
			w.execute(t, start(runs[0]))
			b.waiting = these(runs[2])
		case 2:
			b.sent = these(runs[3])
		}
	}
	if r := verify(b); r.Dispatch.Gone != 0 || r.Dispatch.Outbox != 1 || r.Dispatch.Broker != 2 || looks != 2 {
		t.Errorf("all have moved: %+v after %d looks", r.Dispatch, looks)
	}

	// Nothing follows from the last seconds of a lease, nor from what was claimed
	// before a restore.
	w.exec(t, "UPDATE claims SET lease_until = now() + interval '3 seconds' WHERE run_id = $1", runs[1].ID)
	if r := verify(&broker{made: made, sent: these(runs[2], runs[3])}); r.Dispatch.Claims != 2 || r.Dispatch.Gone != 0 {
		t.Errorf("a lease that is nearly over: %+v", r.Dispatch)
	}
	w.exec(t, "SELECT daybook_raise_era('restored')")
	if r := verify(&broker{made: made}); !r.Dispatch.Asked || r.Dispatch.Claims != 0 {
		t.Errorf("claims of before a restore: %+v", r.Dispatch)
	}
}
