package domain

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Ids are derived, so that two writers that decide the same thing arrive at the
// same id and meet in a unique key instead of making two of it. The layout is
// UUIDv8 (RFC 9562 §5.8): 48 bits of milliseconds since the Unix epoch, then a
// hash. A run's events therefore lie together, in the month of its instant.

// SlotID is the id of the run of a job's due instant. The instant counts to the
// microsecond, which is what PostgreSQL stores.
func SlotID(job uuid.UUID, at time.Time) uuid.UUID {
	return timed(at, digest("slot", job[:], micros(at)))
}

// KeyID is the id proposed for a run asked for under a key, ready at the given
// time. The time is part of the id, so a later request for the same key derives
// another one: the id stored with the key is the run's.
func KeyID(job uuid.UUID, key string, ready time.Time) uuid.UUID {
	return timed(ready, digest("key", job[:], []byte(key)))
}

// JobID is the id of the job of that name, for ever: a job that is archived and
// made again goes on with its stream and its ledger of instants.
func JobID(name string) uuid.UUID {
	sum := digest("job", []byte(name))
	return marked(uuid.UUID(sum[:16]))
}

// digest hashes tagged parts, each behind its length, so that no two lists of
// parts read the same.
func digest(tag string, parts ...[]byte) [sha256.Size]byte {
	b := make([]byte, 0, 96)
	b = binary.AppendUvarint(b, uint64(len(tag)))
	b = append(b, tag...)
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}

func micros(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(t.UnixMicro()))
}

// FirstID is the lowest id that a run of that instant or a later one can have.
func FirstID(t time.Time) (id uuid.UUID) {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.UnixMilli()))
	copy(id[:6], ms[2:])
	return id
}

// InstantOf is the instant in a run's id, to the millisecond.
func InstantOf(run uuid.UUID) time.Time {
	var ms [8]byte
	copy(ms[2:], run[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC()
}

func timed(t time.Time, sum [sha256.Size]byte) uuid.UUID {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(t.UnixMilli()))
	var id uuid.UUID
	copy(id[:6], ms[2:])
	copy(id[6:], sum[:])
	return marked(id)
}

func marked(id uuid.UUID) uuid.UUID {
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
