package outbox

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// backlog makes five packs, oldest first: two failed, two parked, one pending, none of which is due.
func backlog(t *testing.T, w *world) []uuid.UUID {
	t.Helper()
	for range 5 {
		w.enqueue(t, NewWriter("gone"), time.Hour, time.Hour)
	}
	ids := w.packIDs(t)
	for i, id := range ids {
		w.exec(t, "UPDATE outbox SET created_at = now() - interval '10 minutes' + $2 * interval '1 minute', until = now() + interval '1 hour' WHERE id = $1", id, i)
	}
	w.exec(t, "UPDATE outbox SET attempts = 3, last_error = 'stream is full' WHERE id = ANY ($1)", ids[:2])
	w.exec(t, "UPDATE outbox SET attempts = 1, last_error = 'too large', parked_at = now() WHERE id = ANY ($1)", ids[2:4])
	return ids
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	if s, err := ReadStatus(t.Context(), w.Pool(), 10); err != nil || s.Pending.Packs != 0 || len(s.Packs) != 0 {
		t.Fatalf("status of an empty outbox: %+v, error %v", s, err)
	}
	ids := backlog(t, w)
	s, err := ReadStatus(t.Context(), w.Pool(), 4)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		have   Backlog
		packs  int
		oldest time.Duration
	}{"pending": {s.Pending, 1, 6 * time.Minute}, "failed": {s.Failed, 2, 10 * time.Minute}, "parked": {s.Parked, 2, 8 * time.Minute}} {
		if c.have.Packs != c.packs || c.have.Messages != 2*c.packs || c.have.Oldest < c.oldest || c.have.Oldest > c.oldest+deadline {
			t.Errorf("%s: %+v", name, c.have)
		}
	}
	var order []uuid.UUID
	for _, p := range s.Packs {
		order = append(order, p.ID)
	}
	if want := []uuid.UUID{ids[2], ids[3], ids[0], ids[1]}; !slices.Equal(order, want) {
		t.Errorf("listed %v, want parked, then failed: %v", order, want)
	}
	p := s.Packs[2]
	if p.State != Failed || p.Attempts != 3 || p.LastError != "stream is full" || p.Messages != 2 || p.Owner != "gone" || p.Age < 10*time.Minute || !p.ParkedAt.IsZero() {
		t.Errorf("%+v", p)
	}
}

func TestReadClaims(t *testing.T) {
	w := newWorld(t)
	ids := backlog(t, w)
	claims, err := ReadClaims(t.Context(), w.Pool())
	if err != nil || len(claims) != 10 {
		t.Fatalf("%d claims in five packs of two messages, %v", len(claims), err)
	}
	w.exec(t, "UPDATE outbox SET pack = 'unreadable' WHERE id = $1", ids[2])
	if claims, err := ReadClaims(t.Context(), w.Pool()); err == nil || !strings.Contains(err.Error(), ids[2].String()) {
		t.Errorf("a pack that cannot be read: %v, %v", claims, err)
	}
}

func TestReplay(t *testing.T) {
	w := newWorld(t)
	ids := backlog(t, w)
	if _, err := Replay(t.Context(), w.Pool(), Selection{}); !errors.Is(err, ErrNothingSelected) {
		t.Errorf("selecting nothing: %v", err)
	}
	now, err := w.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	minute := func(n int) time.Time { return now.Add(time.Duration(n)*time.Minute - 30*time.Second) }
	for name, c := range map[string]struct {
		Selection
		want []uuid.UUID
	}{
		"all":                  {Selection{All: true}, ids[:4]},
		"ids":                  {Selection{IDs: []uuid.UUID{ids[1], ids[3], ids[4], uuid.New()}}, []uuid.UUID{ids[1], ids[3]}},
		"no ids":               {Selection{IDs: []uuid.UUID{}}, nil},
		"range":                {Selection{From: minute(-9), To: minute(-7)}, ids[1:3]},
		"since":                {Selection{From: minute(-8)}, ids[2:4]},
		"ids within the range": {Selection{From: minute(-8), IDs: ids[:3]}, ids[2:3]},
	} {
		t.Run(name, func(t *testing.T) {
			w.exec(t, "UPDATE outbox SET until = now() + interval '1 hour', attempts = 1 WHERE id = ANY ($1)", ids[:4])
			w.exec(t, "UPDATE outbox SET parked_at = now() WHERE id = ANY ($1)", ids[2:4])
			n, err := Replay(t.Context(), w.Pool(), c.Selection)
			if err != nil || n != len(c.want) {
				t.Errorf("replayed %d, error %v; want %d", n, err, len(c.want))
			}
			var due []uuid.UUID
			err = w.admin.QueryRow(t.Context(),
				"SELECT array_agg(id ORDER BY created_at) FROM outbox WHERE until <= now() AND parked_at IS NULL AND attempts = 0").Scan(&due)
			if err != nil || !slices.Equal(due, c.want) {
				t.Errorf("due are %v, want %v; error %v", due, c.want, err)
			}
		})
	}
	if _, err := Replay(t.Context(), w.Pool(), Selection{All: true}); err != nil {
		t.Fatal(err)
	}
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	drain(t, r)
	if n := len(b.ids(false)); n != 8 {
		t.Errorf("%d messages published, want the replayed packs' eight", n)
	}
}
