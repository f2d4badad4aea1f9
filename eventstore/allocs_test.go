//go:build !race

package eventstore

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// Allocations are counted, not timed: the figures are the same on every machine.
// A path that became dearer fails here; one that became clearly cheaper asks for
// its new figure, or the next change could undo it unseen.
func TestAllocations(t *testing.T) {
	m := pgtype.NewMap()
	registerCodecs(m)
	ids, times, texts := make([]uuid.UUID, 500), make([]time.Time, 500), make([]string, 500)
	buf := make([]byte, 0, 1<<16)
	for _, c := range []struct {
		name      string
		committed float64
		op        func()
	}{
		{"500 uuids encoded", 1, func() { buf, _ = m.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, ids, buf[:0]) }},
		{"500 times encoded", 1, func() { buf, _ = m.Encode(pgtype.TimestamptzArrayOID, pgtype.BinaryFormatCode, times, buf[:0]) }},
		{"500 texts encoded", 1, func() { buf, _ = m.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, texts, buf[:0]) }},
	} {
		if have := testing.AllocsPerRun(200, c.op); have > c.committed || have < 0.8*c.committed-1 {
			t.Errorf("%s: %.0f allocations an operation, committed are %.0f", c.name, have, c.committed)
		}
	}
}
