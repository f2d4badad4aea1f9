package eventstore

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// The driver finds out for every element of an array how it is to be encoded,
// which takes longer than the encoding, and a uuid.UUID it turns into text and
// parses again. The columns here are written by the thousand, so their exact
// types are encoded straight into the protocol's binary form; all other types go
// the driver's way.

// registerCodecs makes a connection's parameters and rows be encoded and read so.
func registerCodecs(m *pgtype.Map) {
	replace := func(oid uint32, with func(pgtype.Codec) pgtype.Codec) {
		if t, ok := m.TypeForOID(oid); ok {
			m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: with(t.Codec)})
		}
	}
	replace(pgtype.UUIDOID, func(c pgtype.Codec) pgtype.Codec { return uuidCodec{c} })
	for oid, plans := range map[uint32][]arrayPlan{
		pgtype.UUIDArrayOID:        {array[uuid.UUID]{pgtype.UUIDOID, putUUID}, array[*uuid.UUID]{pgtype.UUIDOID, nullable(putUUID)}},
		pgtype.Int2ArrayOID:        {array[int16]{pgtype.Int2OID, putInt16}},
		pgtype.Int4ArrayOID:        {array[int32]{pgtype.Int4OID, putInt32}},
		pgtype.BoolArrayOID:        {array[bool]{pgtype.BoolOID, putBool}},
		pgtype.TextArrayOID:        {array[string]{pgtype.TextOID, putString}},
		pgtype.ByteaArrayOID:       {array[[]byte]{pgtype.ByteaOID, putBytes}},
		pgtype.TimestamptzArrayOID: {array[time.Time]{pgtype.TimestamptzOID, putTime}, array[*time.Time]{pgtype.TimestamptzOID, nullable(putTime)}},
		pgtype.JSONBArrayOID:       {array[[]byte]{pgtype.JSONBOID, putJSONB}},
	} {
		replace(oid, func(c pgtype.Codec) pgtype.Codec { return arrayCodec{c, plans} })
	}
}

type uuidCodec struct{ pgtype.Codec }

func (c uuidCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return uuidPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return uuidPlan{}
	}
	return c.Codec.PlanScan(m, oid, format, target)
}

type uuidPlan struct{}

func (uuidPlan) Encode(value any, buf []byte) ([]byte, error) {
	id := value.(uuid.UUID)
	return append(buf, id[:]...), nil
}

func (uuidPlan) Scan(src []byte, target any) (err error) {
	*target.(*uuid.UUID), err = uuid.FromBytes(src) // also refuses NULL, which has no bytes
	return err
}

// arrayCodec encodes slices of the plans' types.
type arrayCodec struct {
	pgtype.Codec
	plans []arrayPlan
}

type arrayPlan interface {
	pgtype.EncodePlan
	fits(value any) bool
}

// PreferredFormat is binary for jsonb, too: as text its elements would be quoted
// once more.
func (arrayCodec) PreferredFormat() int16 { return pgtype.BinaryFormatCode }

func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		for _, p := range c.plans {
			if p.fits(value) {
				return p
			}
		}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// array encodes a []T. A nil slice is NULL; so is an element for which put says so.
type array[T any] struct {
	element uint32
	put     func(buf []byte, v T) (out []byte, null bool)
}

func (array[T]) fits(value any) bool {
	_, ok := value.([]T)
	return ok
}

func (a array[T]) Encode(value any, buf []byte) ([]byte, error) {
	s := value.([]T)
	if s == nil {
		return nil, nil
	}
	be := binary.BigEndian
	if len(s) == 0 { // no dimensions
		return be.AppendUint32(append(buf, 0, 0, 0, 0, 0, 0, 0, 0), a.element), nil
	}
	nulls := len(buf) + 7 // the low byte of the second word
	buf = append(buf, 0, 0, 0, 1, 0, 0, 0, 0)
	buf = be.AppendUint32(buf, a.element)
	buf = be.AppendUint32(buf, uint32(len(s)))
	buf = be.AppendUint32(buf, 1) // the first index
	first := len(buf)
	for i, v := range s {
		if i == 1 { // the elements of a column are of about one size
			buf = slices.Grow(buf, (len(s)-1)*(len(buf)-first))
		}
		at := len(buf)
		out, null := a.put(append(buf, 0xff, 0xff, 0xff, 0xff), v)
		buf = out
		if null {
			buf[nulls] = 1
			continue
		}
		be.PutUint32(buf[at:], uint32(len(buf)-at-4))
	}
	return buf, nil
}

func nullable[T any](put func([]byte, T) ([]byte, bool)) func([]byte, *T) ([]byte, bool) {
	return func(buf []byte, v *T) ([]byte, bool) {
		if v == nil {
			return buf, true
		}
		return put(buf, *v)
	}
}

func putUUID(buf []byte, v uuid.UUID) ([]byte, bool) { return append(buf, v[:]...), false }
func putInt16(buf []byte, v int16) ([]byte, bool) {
	return binary.BigEndian.AppendUint16(buf, uint16(v)), false
}
func putInt32(buf []byte, v int32) ([]byte, bool) {
	return binary.BigEndian.AppendUint32(buf, uint32(v)), false
}
func putString(buf []byte, v string) ([]byte, bool) { return append(buf, v...), false }
func putBytes(buf []byte, v []byte) ([]byte, bool)  { return append(buf, v...), v == nil }

func putBool(buf []byte, v bool) ([]byte, bool) {
	if v {
		return append(buf, 1), false
	}
	return append(buf, 0), false
}

// jsonb's binary form is text behind a version.
func putJSONB(buf []byte, v []byte) ([]byte, bool) {
	if v == nil {
		return buf, true
	}
	return append(append(buf, 1), v...), false
}

// A timestamp's binary form counts microseconds from 2000 on.
const year2000 = 946_684_800_000_000

func putTime(buf []byte, v time.Time) ([]byte, bool) {
	return binary.BigEndian.AppendUint64(buf, uint64(v.UnixMicro()-year2000)), false
}
