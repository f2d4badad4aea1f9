package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// randomMessages is the same for the same seed.
func randomMessages(seed uint64, n int) []eventstore.Message {
	rng := rand.New(rand.NewPCG(seed, 0))
	id := func() (u uuid.UUID) {
		binary.BigEndian.PutUint64(u[:], rng.Uint64())
		binary.BigEndian.PutUint64(u[8:], rng.Uint64())
		return u
	}
	lanes := []string{"default", "mail", "q-2", strings.Repeat("x", protocol.MaxToken), ""}
	messages := make([]eventstore.Message, n)
	for i := range messages {
		m := &messages[i]
		m.Queue, m.Kind = lanes[rng.IntN(len(lanes))], lanes[rng.IntN(2)]
		m.Generation = rng.IntN(3) * rng.IntN(1000)
		m.Hints = make([]eventstore.Hint, 1+rng.IntN(4))
		for j := range m.Hints {
			m.Hints[j] = eventstore.Hint{RunID: id(), ClaimID: id(), LeaseUntil: time.UnixMicro(rng.Int64N(1<<52) - 1<<50).UTC()}
		}
	}
	return messages
}

func mustEncode(t testing.TB, m []eventstore.Message) []byte {
	t.Helper()
	b, err := encodePack(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPackRoundTrip(t *testing.T) {
	for n := 1; n < 60; n += 7 {
		want := randomMessages(uint64(n), n)
		got, err := decodePack(mustEncode(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d messages came back as others:\n%v\n%v", n, got, want)
		}
	}
}

func TestPackIsCompact(t *testing.T) {
	lease := time.Now()
	messages := make([]eventstore.Message, 500)
	for i := range messages {
		messages[i] = eventstore.Message{Queue: "default", Kind: "send-email", Hints: []eventstore.Hint{{RunID: uuid.New(), ClaimID: uuid.New(), LeaseUntil: lease}}}
	}
	if n := len(mustEncode(t, messages)); n > 500*37 {
		t.Errorf("%d bytes for 500 hints", n)
	}
}

func TestDamagedPackIsRefused(t *testing.T) {
	whole := mustEncode(t, randomMessages(1, 3))
	for n := range whole {
		if _, err := decodePack(whole[:n]); err == nil {
			t.Fatalf("read a pack that is cut off after %d of %d bytes", n, len(whole))
		}
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			_, err := decodePack(b)
			if err == nil {
				t.Fatalf("read a pack with bit %d of byte %d flipped", bit, i)
			}
			if (i == 0) != errors.Is(err, errPackVersion) {
				t.Errorf("byte %d flipped: %v", i, err)
			}
		}
	}
	if _, err := decodePack(append(bytes.Clone(whole), 0)); err == nil {
		t.Error("read a pack with a byte too many")
	}
}

// reseal gives b, without version and checksum, both.
func reseal(b []byte) []byte {
	b = append([]byte{packVersion}, b...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func TestIllegalPackIsRefused(t *testing.T) {
	hint := make([]byte, hintBytes+1)
	lane := []byte{newLane, 1, 'q', 1, 'k'}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	if _, err := decodePack(reseal(join([]byte{1}, lane, []byte{0, 1}, hint))); err != nil {
		t.Fatalf("the legal one: %v", err)
	}
	for name, body := range map[string][]byte{
		"nothing":                {},
		"no messages":            {0},
		"no hints":               join([]byte{1}, lane, []byte{0, 0}),
		"more hints than bytes":  join([]byte{1}, lane, []byte{0, 2}, hint),
		"too many hints":         join([]byte{1}, lane, []byte{0}, binary.AppendUvarint(nil, 1<<40), hint),
		"too many messages":      binary.AppendUvarint(nil, 1<<40),
		"fewer messages":         join([]byte{2}, lane, []byte{0, 1}, hint),
		"bytes left":             join([]byte{1}, lane, []byte{0, 1}, hint, []byte{7}),
		"first without lane":     join([]byte{1, sameLane, 0, 1}, hint),
		"unknown lane mark":      join([]byte{1, 9, 0, 1}, hint),
		"name longer than token": join([]byte{1, newLane, 65}, bytes.Repeat([]byte{'q'}, 65), []byte{1, 'k', 0, 1}, hint),
		"generation too large":   join([]byte{1}, lane, binary.AppendUvarint(nil, 1<<62), []byte{1}, hint),
		"endless number":         join([]byte{1}, lane, bytes.Repeat([]byte{0xff}, 20)),
	} {
		if m, err := decodePack(reseal(body)); err == nil {
			t.Errorf("%s: read as %v", name, m)
		}
	}
}

func TestUnstorableMessagesAreRefused(t *testing.T) {
	hint := []eventstore.Hint{{RunID: uuid.New(), ClaimID: uuid.New()}}
	for name, m := range map[string][]eventstore.Message{
		"none":                {},
		"too many":            make([]eventstore.Message, maxPackMessages+1),
		"no hints":            {{Queue: "q", Kind: "k"}},
		"too many hints":      {{Queue: "q", Kind: "k", Hints: make([]eventstore.Hint, protocol.MaxHints+1)}},
		"negative generation": {{Queue: "q", Kind: "k", Generation: -1, Hints: hint}},
		"long queue":          {{Queue: strings.Repeat("q", 65), Kind: "k", Hints: hint}},
	} {
		if _, err := encodePack(m); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}

// Whatever can be read can be written, and reads the same.
func FuzzDecodePack(f *testing.F) {
	for seed := range uint64(4) {
		b := mustEncode(f, randomMessages(seed, int(seed)+1))
		f.Add(b[1 : len(b)-crc32.Size])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodePack(body)
		m, err := decodePack(reseal(body))
		if err != nil {
			return
		}
		again, err := decodePack(mustEncode(t, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("read %v, then %v, error %v", m, again, err)
		}
	})
}
