package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// A pack, version 1, is
//
//	version   1 byte
//	messages  uvarint
//	each:     lane, generation uvarint, hints uvarint, the hints
//	lane      0 as the message before, or 1 and queue and kind, each uvarint length and bytes
//	hint      run id 16 bytes, claim id 16 bytes, lease varint: microseconds after the lease before, the first after 1970
//	checksum  CRC-32C of all before, 4 bytes, big endian
//
// About 34 bytes a hint, where the message on the wire has 146.
const packVersion = 1

const (
	sameLane = 0
	newLane  = 1
)

// errPackVersion marks a pack of another version, which some other relay may be able to read.
var errPackVersion = errors.New("pack of an unknown version")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	maxPackMessages = 1 << 16
	maxGeneration   = 1 << 30
	hintBytes       = 2 * 16
)

// encodePack makes the stored form of messages.
func encodePack(messages []eventstore.Message) ([]byte, error) {
	if len(messages) == 0 || len(messages) > maxPackMessages {
		return nil, fmt.Errorf("pack of %d messages: want 1 to %d", len(messages), maxPackMessages)
	}
	size := 16
	for _, m := range messages {
		size += 8 + (hintBytes+4)*len(m.Hints)
	}
	b := append(make([]byte, 0, size), packVersion)
	b = binary.AppendUvarint(b, uint64(len(messages)))
	var queue, kind string
	var lease int64
	for i, m := range messages {
		if err := checkMessage(m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if i > 0 && m.Queue == queue && m.Kind == kind {
			b = append(b, sameLane)
		} else {
			queue, kind = m.Queue, m.Kind
			b = appendString(appendString(append(b, newLane), queue), kind)
		}
		b = binary.AppendUvarint(b, uint64(m.Generation))
		b = binary.AppendUvarint(b, uint64(len(m.Hints)))
		for _, h := range m.Hints {
			b = append(append(b, h.RunID[:]...), h.ClaimID[:]...)
			at := h.LeaseUntil.UnixMicro()
			b = binary.AppendVarint(b, at-lease)
			lease = at
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

func checkMessage(m eventstore.Message) error {
	switch {
	case len(m.Hints) == 0 || len(m.Hints) > protocol.MaxHints:
		return fmt.Errorf("%d hints: want 1 to %d", len(m.Hints), protocol.MaxHints)
	case m.Generation < 0 || m.Generation > maxGeneration:
		return fmt.Errorf("generation %d: want 0 to %d", m.Generation, maxGeneration)
	case len(m.Queue) > protocol.MaxToken || len(m.Kind) > protocol.MaxToken:
		return fmt.Errorf("lane %.80q, %.80q: at most %d bytes each", m.Queue, m.Kind, protocol.MaxToken)
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodePack reads what encodePack made, and nothing else.
func decodePack(b []byte) ([]eventstore.Message, error) {
	if len(b) == 0 {
		return nil, errors.New("pack is empty")
	}
	if b[0] != packVersion {
		return nil, fmt.Errorf("%w: %d, want %d", errPackVersion, b[0], packVersion)
	}
	if len(b) < 1+crc32.Size {
		return nil, fmt.Errorf("pack is cut off after %d bytes", len(b))
	}
	body, sum := b[:len(b)-crc32.Size], binary.BigEndian.Uint32(b[len(b)-crc32.Size:])
	if have := crc32.Checksum(body, castagnoli); have != sum {
		return nil, fmt.Errorf("pack of %d bytes is damaged: checksum %08x, want %08x", len(b), have, sum)
	}
	r := &packReader{rest: body[1:]}
	n := r.count("messages", maxPackMessages)
	messages := make([]eventstore.Message, 0, min(n, len(r.rest)/hintBytes))
	var lane eventstore.Message
	var lease int64
	for i := 0; i < n && r.err == nil; i++ {
		switch mark := r.octet(); {
		case mark == newLane:
			lane.Queue, lane.Kind = r.text("queue"), r.text("kind")
		case mark != sameLane || i == 0:
			r.fail("lane mark %d of message %d", mark, i)
		}
		m := lane
		m.Generation = r.count("generation", maxGeneration)
		m.Hints = make([]eventstore.Hint, r.count("hints", min(protocol.MaxHints, len(r.rest)/hintBytes)))
		for j := range m.Hints {
			h := &m.Hints[j]
			h.RunID, h.ClaimID = r.id(), r.id()
			lease += r.varint()
			h.LeaseUntil = time.UnixMicro(lease).UTC()
		}
		if len(m.Hints) == 0 {
			r.fail("message %d has no hints", i)
		}
		messages = append(messages, m)
	}
	switch {
	case r.err == nil && n == 0:
		r.fail("no messages")
	case len(r.rest) > 0:
		r.fail("%d bytes too many", len(r.rest))
	}
	if r.err != nil {
		return nil, fmt.Errorf("pack of %d bytes: %w", len(b), r.err)
	}
	return messages, nil
}

// packReader keeps its first error; what it returns afterwards is zero.
type packReader struct {
	rest []byte
	err  error
}

func (r *packReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.rest = nil
}

func (r *packReader) take(n int) []byte {
	if len(r.rest) < n {
		r.fail("ends in the middle of a message")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *packReader) octet() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *packReader) id() (id uuid.UUID) {
	copy(id[:], r.take(len(id)))
	return id
}

func (r *packReader) text(what string) string {
	return string(r.take(r.count(what+" length", protocol.MaxToken)))
}

func (r *packReader) count(what string, most int) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(most) {
		r.fail("%s: want a number up to %d", what, most)
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

func (r *packReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail("lease: not a number")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
