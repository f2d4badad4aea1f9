package eventstore

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// rawRow reads the rows of one query, one after the other, value by value. Runs and
// events come by the thousand, and the driver looks up for every value of every
// row how it is to be read, which takes longer than reading it: rows in the
// protocol's binary form, as the driver asks for them, are read here, and whatever
// else comes is left to the driver and its errors.
type rawRow struct {
	asked, binary bool
	values        [][]byte
	odd           bool // some value is not what is expected
}

// begin takes a row, and reports whether the query's rows can be read here.
func (r *rawRow) begin(rows pgx.Rows) bool {
	if !r.asked {
		r.asked, r.binary = true, true
		for _, f := range rows.FieldDescriptions() {
			// A text is the same in both forms, and JSON comes as one.
			text := f.Format == pgtype.TextFormatCode && (f.DataTypeOID == pgtype.TextOID || f.DataTypeOID == pgtype.JSONBOID)
			r.binary = r.binary && (text || f.Format == pgtype.BinaryFormatCode && f.DataTypeOID != pgtype.JSONBOID)
		}
	}
	r.values, r.odd = rows.RawValues(), false
	return r.binary
}

// next is the row's next value, nil if it is NULL. It is the driver's memory.
func (r *rawRow) next() []byte {
	if len(r.values) == 0 {
		r.odd = true
		return nil
	}
	v := r.values[0]
	r.values = r.values[1:]
	return v
}

// fixed is the next value, which has n bytes.
func (r *rawRow) fixed(n int) []byte {
	v := r.next()
	if len(v) != n {
		r.odd = true
		return make([]byte, n)
	}
	return v
}

func (r *rawRow) id() uuid.UUID { return uuid.UUID(r.fixed(len(uuid.UUID{}))) }

// maybeID is nil for NULL.
func (r *rawRow) maybeID() *uuid.UUID {
	v := r.next()
	if v == nil {
		return nil
	}
	id := r.idOf(v)
	return &id
}

func (r *rawRow) idOf(v []byte) (id uuid.UUID) {
	r.odd = r.odd || copy(id[:], v) != len(id)
	return id
}

func (r *rawRow) int16() int   { return int(int16(binary.BigEndian.Uint16(r.fixed(2)))) }
func (r *rawRow) int32() int   { return int(int32(binary.BigEndian.Uint32(r.fixed(4)))) }
func (r *rawRow) int64() int64 { return int64(binary.BigEndian.Uint64(r.fixed(8))) }
func (r *rawRow) bool() bool   { return r.fixed(1)[0] != 0 }

func (r *rawRow) time() time.Time { return r.timeOf(r.fixed(8)) }

// maybeTime is zero for NULL.
func (r *rawRow) maybeTime() time.Time {
	v := r.next()
	if v == nil {
		return time.Time{}
	}
	if len(v) != 8 {
		r.odd = true
		return time.Time{}
	}
	return r.timeOf(v)
}

func (r *rawRow) timeOf(v []byte) time.Time {
	us := int64(binary.BigEndian.Uint64(v))
	if us == math.MaxInt64 || us == math.MinInt64 { // infinity
		r.odd = true
		return time.Time{}
	}
	return time.UnixMicro(us + year2000).UTC()
}

// bytes is a copy of the next value, nil for NULL.
func (r *rawRow) bytes() []byte {
	v := r.next()
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}

// text is the next value; as last had it, if it is the same.
func (r *rawRow) text(last *string) string {
	v := r.next()
	if v == nil {
		r.odd = true
		return ""
	}
	if string(v) != *last {
		*last = string(v)
	}
	return *last
}
