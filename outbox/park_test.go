package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

var errSubject = permanentError{errors.New("subject refused")}

// releaser gives runs back as an engine does.
type releaser struct {
	*eventstore.Store
	fail error

	mu    sync.Mutex
	calls []string // "reason: claim id", sorted
}

func (r *releaser) Release(ctx context.Context, hints []eventstore.Hint, reason string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	commands := make([]eventstore.Command, len(hints))
	for i, h := range hints {
		r.calls = append(r.calls, reason+": "+h.ClaimID.String())
		commands[i] = eventstore.Command{RunID: h.RunID, Do: domain.ReleaseRun{ClaimID: h.ClaimID, Reason: reason, Undeliverable: true}}
	}
	slices.Sort(r.calls)
	_, err := r.Execute(ctx, commands)
	return err
}

func TestUnpublishableIsParkedAndReleased(t *testing.T) {
	w := newWorld(t)
	b, back := &broker{}, &releaser{Store: w.Store}
	r := w.relay(t, "engine-1", b, func(c *Config) { c.Releaser = back })
	runs := w.claim(t, r.Writer(), 6)
	refused, down := runs[1].ClaimID.String(), runs[4].ClaimID.String()
	b.refuse = func(m *message.Message) error {
		switch m.Metadata[protocol.HeaderMsgID] {
		case refused:
			return errSubject
		case down:
			return errDown
		}
		return nil
	}
	step(t, r)
	if got := b.ids(true); len(got) != 4 {
		t.Errorf("published %v, want the other four", got)
	}
	s, err := ReadStatus(t.Context(), w.Pool(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if s.Parked.Packs != 1 || s.Parked.Messages != 1 || s.Failed.Packs != 1 || s.Failed.Messages != 1 || s.Pending.Packs != 0 || len(s.Packs) != 2 {
		t.Fatalf("status %+v", s)
	}
	parked, failed := s.Packs[0], s.Packs[1]
	if parked.State != Parked || parked.ParkedAt.IsZero() || parked.LastError != errSubject.Error() ||
		failed.State != Failed || !failed.ParkedAt.IsZero() || !strings.Contains(failed.LastError, errDown.Error()) ||
		!parked.CreatedAt.Equal(failed.CreatedAt) || s.Parked.Oldest <= 0 {
		t.Errorf("status %+v", s)
	}
	if want := []string{errSubject.Error() + ": " + refused}; !slices.Equal(back.calls, want) {
		t.Errorf("released %v, want %v", back.calls, want)
	}
	if n := w.count(t, "SELECT count(*) FROM due_runs WHERE run_id = $1", runs[1].ID); n != 1 {
		t.Error("the run of the parked message is not waiting again")
	}
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 5 {
		t.Errorf("%d claims, want the other five", n)
	}
	w.abandon(t)
	b.set(nil)
	drain(t, r)
	if got := b.ids(true); len(got) != 5 || slices.Contains(got, refused) {
		t.Errorf("published %v, want all but the parked one", got)
	}
	if s := r.Stats(); s.Parked != 1 || s.Published != 5 {
		t.Errorf("counted %+v", s)
	}
}

func TestWholePackParked(t *testing.T) {
	w := newWorld(t)
	b := &broker{refuse: refuseAll(errSubject)}
	back := &releaser{Store: w.Store, fail: errors.New("no database")}
	r := w.relay(t, "engine-1", b, func(c *Config) { c.Releaser = back })
	for range 3 {
		w.claim(t, r.Writer(), 2)
	}
	drain(t, r)
	w.abandon(t)
	drain(t, r)
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL AND messages = 2"); n != 3 || w.rows(t) != 3 {
		t.Errorf("%d of %d packs parked, want all three", n, w.rows(t))
	}
	if b.asked() != 3 || r.Stats().Holding {
		t.Errorf("the broker was asked %d times, want once a pack; holding back: %v", b.asked(), r.Stats().Holding)
	}
	if !strings.Contains(w.log.String(), "wait for the end of their lease") {
		t.Errorf("a failed release is not logged:\n%s", w.log)
	}
}

// What watches the dead-letter stream learns lane, reason and runs, in messages
// that the broker takes however many there are.
func TestParkedDispatchesAreTold(t *testing.T) {
	w := newWorld(t)
	b, dead := &broker{refuse: refuseAll(errSubject)}, &broker{}
	r := w.relay(t, "engine-1", b, func(c *Config) { c.Dead = dead })
	n := protocol.MaxDead + 1
	runs := w.claim(t, r.Writer(), n)
	w.keepFresh(t, r)
	step(t, r)
	told := map[uuid.UUID]bool{}
	letters := dead.sent
	for _, m := range letters {
		var d protocol.DeadDispatch
		if err := json.Unmarshal([]byte(m.body), &d); err != nil {
			t.Fatal(err)
		}
		if d.Queue != "default" || d.Kind != "noop" || d.Reason != errSubject.Error() || d.ParkedAt.IsZero() || d.Pack == uuid.Nil || len(d.Dispatches) > protocol.MaxDead ||
			m.subject != "daybook.v1.dead.default.noop" || m.id == "" {
			t.Errorf("letter %+v", m)
		}
		for _, h := range d.Dispatches {
			told[h.ClaimID] = true
		}
	}
	if len(letters) != 2 || letters[0].id == letters[1].id {
		t.Errorf("%d letters", len(letters))
	}
	for _, run := range runs {
		if !told[run.ClaimID] {
			t.Fatalf("claim %s is not told of", run.ClaimID)
		}
	}

	dead.set(refuseAll(errDown))
	w.claim(t, r.Writer(), 1)
	w.keepFresh(t, r)
	step(t, r)
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL"); n != 2 || !strings.Contains(w.log.String(), "not told of") {
		t.Errorf("%d packs are parked while the dead-letter stream is away, want both, and a word in the log:\n%s", n, w.log)
	}
}

func TestReasonsAreToldApart(t *testing.T) {
	live := []dispatch{}
	for _, m := range randomMessages(3, 4) {
		live = append(live, newDispatch(m))
	}
	large := permanentError{errors.New("too large")}
	v := triage(live, partial{0: errSubject, 1: large, 3: errSubject})
	if len(v.parked) != 3 || len(v.retry) != 0 || len(v.reasons) != 2 ||
		!slices.Equal(v.reasons[0].hints(), slices.Concat(live[0].Hints, live[3].Hints)) || !slices.Equal(v.reasons[1].hints(), live[1].Hints) {
		t.Errorf("%+v", v)
	}
	if v := triage(live, fmt.Errorf("wrapped: %w", partial{2: errDown})); len(v.retry) != 1 || v.retry[0].Hints[0] != live[2].Hints[0] {
		t.Errorf("%+v", v)
	}
	if v := triage(live, partial{}); len(v.retry) != 4 {
		t.Errorf("an error that names nothing: %+v", v)
	}
}

func TestErrorTextIsStorable(t *testing.T) {
	w := newWorld(t)
	b := &broker{refuse: refuseAll(errors.New("a\x00b\xff" + strings.Repeat("ä", 2000)))}
	r := w.relay(t, "engine-1", b)
	w.enqueue(t, r.Writer(), time.Minute)
	step(t, r)
	if n := w.count(t, "SELECT octet_length(last_error) FROM outbox"); n < 100 || n > 1000 {
		t.Errorf("error of %d bytes stored", n)
	}
}

// A relay that was away for longer than its lease must not write over what the next one does.
func TestLostLeaseRecordsNothing(t *testing.T) {
	w := newWorld(t)
	back := &releaser{Store: w.Store}
	b := &broker{refuse: refuseAll(errSubject)}
	slow := w.relay(t, "engine-1", b, func(c *Config) { c.Releaser = back })
	w.claim(t, slow.Writer(), 2)
	w.keepFresh(t, slow)
	p := slow.desk.take()
	w.exec(t, "UPDATE outbox SET owner = 'engine-2', until = now() + interval '1 hour', attempts = 7")
	if _, err := slow.deliver(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE owner = 'engine-2' AND attempts = 7 AND parked_at IS NULL"); n != 1 || len(back.calls) != 0 {
		t.Errorf("the pack of another relay was changed, or its runs released: %v", back.calls)
	}
}

func TestUnreadablePack(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	gone := NewWriter("gone")
	for range 3 {
		w.enqueue(t, gone, time.Minute)
	}
	ids := w.packIDs(t)
	w.exec(t, "UPDATE outbox SET pack = set_byte(pack, 5, get_byte(pack, 5) # 1) WHERE id = $1", ids[0])
	w.exec(t, "UPDATE outbox SET pack = set_byte(pack, 0, 200) WHERE id = $1", ids[1])
	w.abandon(t)
	drain(t, r)
	if len(b.ids(true)) != 1 {
		t.Errorf("published %v, want the pack that can be read", b.ids(true))
	}
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE id = $1 AND parked_at IS NOT NULL AND last_error LIKE '%damaged%'", ids[0]); n != 1 {
		t.Error("the damaged pack is not parked")
	}
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE id = $1 AND parked_at IS NULL", ids[1]); n != 1 {
		t.Error("a pack of another version is not left to the relays that know it")
	}
	w.exec(t, "UPDATE outbox SET created_at = now() - interval '16 minutes'")
	w.abandon(t)
	drain(t, r)
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE id = $1 AND parked_at IS NOT NULL AND last_error LIKE '%version: 200%'", ids[1]); n != 1 {
		t.Error("a pack that no relay could read in time is not parked")
	}
}

func (w *world) packIDs(t *testing.T) (ids []uuid.UUID) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), "SELECT array_agg(id ORDER BY created_at) FROM outbox").Scan(&ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestParkedPacksAreDeletedInTheEnd(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.enqueue(t, NewWriter("gone"), time.Minute)
	}
	ids := w.packIDs(t)
	w.exec(t, "UPDATE outbox SET parked_at = now() - interval '8 days' WHERE id = $1", ids[0])
	w.exec(t, "UPDATE outbox SET parked_at = now() - interval '6 days' WHERE id = $1", ids[1])
	w.exec(t, "UPDATE outbox SET until = now() + interval '1 hour'")
	drain(t, w.relay(t, "engine-1", &broker{}))
	if got := w.packIDs(t); !slices.Equal(got, ids[1:]) {
		t.Errorf("%v are left of %v, want all but the first", got, ids)
	}
}
