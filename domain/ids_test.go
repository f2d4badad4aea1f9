package domain

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestIDsNeverChange pins ids: a release that derives others would run every
// instant again and lose every job.
func TestIDsNeverChange(t *testing.T) {
	at := time.Date(2026, 3, 8, 7, 30, 0, 123456000, time.UTC)
	job := JobID("nightly-report")
	for name, c := range map[string]struct {
		got  uuid.UUID
		want string
	}{
		"job":           {job, "3102658e-25bb-86fc-ae62-cd06552af6b1"},
		"empty name":    {JobID(""), "70704a0a-1cc1-8694-a5f0-6b17c117111b"},
		"slot":          {SlotID(job, at), "019ccc5a-5d3b-8368-8021-a8a35c7c28d2"},
		"slot of epoch": {SlotID(job, time.Unix(0, 0)), "00000000-0000-8a6e-a19b-f94f10200acd"},
		"key":           {KeyID(job, "order-17", at), "019ccc5a-5d3b-88de-a4f9-71647c25e833"},
		"empty key":     {KeyID(job, "", at), "019ccc5a-5d3b-8fb1-aaa1-98d0dd4bc53c"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
}

func TestIDsAreMarked(t *testing.T) {
	rng := seeded(t)
	for range 2000 {
		at := time.UnixMicro(rng.Int64N(1 << 51)) // to the year 2041
		job := JobID(fmt.Sprint(rng.Uint64()))
		for _, id := range []uuid.UUID{job, SlotID(job, at), KeyID(job, fmt.Sprint(rng.Uint64()), at)} {
			if id.Version() != 8 || id.Variant() != uuid.RFC4122 {
				t.Fatalf("%s: version %d, variant %s", id, id.Version(), id.Variant())
			}
		}
		var ms int64
		slot := SlotID(job, at)
		for _, b := range slot[:6] {
			ms = ms<<8 | int64(b)
		}
		if ms != at.UnixMilli() {
			t.Fatalf("the slot of %s holds %d ms, want %d", at, ms, at.UnixMilli())
		}
	}
}

// TestIDsAreOrderedByTime: the events of runs lie together by the time of their
// instants, whatever the job.
func TestIDsAreOrderedByTime(t *testing.T) {
	rng := seeded(t)
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 2000 {
		early := base.Add(time.Duration(rng.Int64N(int64(20 * 365 * 24 * time.Hour))))
		late := early.Add(time.Millisecond + time.Duration(rng.Int64N(int64(time.Hour))))
		a, b := SlotID(JobID(fmt.Sprint(rng.Uint64())), early), KeyID(JobID(fmt.Sprint(rng.Uint64())), "k", late)
		if bytes.Compare(a[:], b[:]) >= 0 {
			t.Fatalf("%s of %s does not come before %s of %s", a, early, b, late)
		}
	}
}

func TestIDsAreDistinct(t *testing.T) {
	at := time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)
	a, b := JobID("a"), JobID("b")
	seen := map[uuid.UUID]string{}
	add := func(name string, id uuid.UUID) {
		t.Helper()
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have the same id %s", name, other, id)
		}
		seen[id] = name
	}
	for i := range 1000 {
		add(fmt.Sprintf("slot a + %d µs", i), SlotID(a, at.Add(time.Duration(i)*time.Microsecond)))
		add(fmt.Sprintf("key %d of a", i), KeyID(a, fmt.Sprint(i), at))
		add(fmt.Sprintf("job %d", i), JobID(fmt.Sprint(i)))
	}
	add("slot of b", SlotID(b, at))
	add("key of b", KeyID(b, "0", at))
	add("job a", a)
	add("job b", b)
	add("key that reads like a slot's time", KeyID(a, string(micros(at)), at))
	// Nothing moves between the parts.
	add("job ab key c", KeyID(a, "bc", at))
	add("job a key bc", KeyID(a, "b\x01c", at))

	if digest("ab", []byte("c")) == digest("a", []byte("bc")) || digest("a", []byte("b"), []byte("c")) == digest("a", []byte("bc")) || digest("a", nil, []byte("b")) == digest("a", []byte("b"), nil) {
		t.Error("parts run into one another")
	}
}

// TestIDsDependOnTheInstantAlone: not on the zone it is written in, nor on what
// the database does not keep.
func TestIDsDependOnTheInstantAlone(t *testing.T) {
	zone := time.FixedZone("", -5*3600)
	at := time.Date(2026, 3, 8, 7, 30, 0, 123456000, time.UTC)
	if SlotID(goldenJob, at) != SlotID(goldenJob, at.In(zone)) || KeyID(goldenJob, "k", at) != KeyID(goldenJob, "k", at.In(zone)) {
		t.Error("the zone changes the id")
	}
	if SlotID(goldenJob, at) != SlotID(goldenJob, at.Add(999)) {
		t.Error("nanoseconds change the id")
	}
}
