package schedule

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"
)

const fingerprintSpan = 548 * day // 18 months

// Fingerprint identifies what the time zone data says about the 18 months
// (548 days) from an instant: the offset then and every later change of it.
// Fingerprints for the same zone name and the same instant differ if and only
// if the data does (up to a hash collision); those for different instants say
// nothing about each other.
func (s *Schedule) Fingerprint(from time.Time) string { return s.zone.fingerprint(second(from)) }

// Fingerprint is that of the set's zone; see [Schedule.Fingerprint].
func (s *Set) Fingerprint(from time.Time) string { return s.parts[0].Fingerprint(from) }

func (z *zone) fingerprint(t int64) string {
	h := fnv.New64a()
	for _, p := range z.periods(t, t+fingerprintSpan) {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], uint64(p.from))
		binary.BigEndian.PutUint64(b[8:], uint64(p.off))
		h.Write(b[:])
	}
	return fmt.Sprintf("z1-%016x", h.Sum64())
}
