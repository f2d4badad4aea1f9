package eventstore

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/pgtest"
)

// What the store's own encoding sends is what the driver's would: the server
// reads both as the same.
func TestColumnsAreEncodedAsTheDriverDoes(t *testing.T) {
	ours, theirs := connect(t), connect(t)
	registerCodecs(ours.TypeMap())
	id, other := uuid.New(), uuid.New()
	at := time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC)
	later := at.Add(50 * 365 * 24 * time.Hour)
	for _, c := range []struct {
		typ   string
		value any
	}{
		{"uuid", id},
		{"uuid[]", []uuid.UUID{id, other, {}}},
		{"uuid[]", []uuid.UUID{}},
		{"uuid[]", []uuid.UUID(nil)},
		{"uuid[]", []*uuid.UUID{&id, nil, &other}},
		{"int2[]", []int16{-1, 0, 32767}},
		{"int4[]", []int32{-1, 0, 1 << 30}},
		{"int4[]", []int{1, 2}}, // not ours: the driver's way
		{"bool[]", []bool{true, false}},
		{"text[]", []string{"", "a", `"{},\`, "NULL", "ä\n"}},
		{"text[]", []string{}},
		{"bytea[]", [][]byte{{0, 1, 255}, {}, nil}},
		{"timestamptz[]", []time.Time{at, later, {}}},
		{"timestamptz[]", []*time.Time{&at, nil}},
		{"jsonb[]", [][]byte{[]byte(`{"a": "\"ä", "b": [1, 2.50]}`), []byte("null"), nil}},
	} {
		t.Run(fmt.Sprintf("%s/%T", c.typ, c.value), func(t *testing.T) {
			q := "SELECT coalesce(($1::" + c.typ + ")::text, 'NULL')"
			have, want := text(t, ours, q, c.value), text(t, theirs, q, c.value)
			if have != want {
				t.Errorf("server reads %s, want %s", have, want)
			}
		})
	}
}

func TestUUIDsAreReadAsTheDriverDoes(t *testing.T) {
	c := connect(t)
	registerCodecs(c.TypeMap())
	want := uuid.New()
	var plain uuid.UUID
	var some, none *uuid.UUID
	var list []uuid.UUID
	if err := c.QueryRow(t.Context(), "SELECT $1::uuid, $1::uuid, NULL::uuid, ARRAY[$1::uuid]", want).Scan(&plain, &some, &none, &list); err != nil {
		t.Fatal(err)
	}
	if plain != want || some == nil || *some != want || none != nil || !reflect.DeepEqual(list, []uuid.UUID{want}) {
		t.Errorf("read %v, %v, %v, %v; want %v", plain, some, none, list, want)
	}
	if err := c.QueryRow(t.Context(), "SELECT NULL::uuid").Scan(&plain); err == nil {
		t.Error("NULL was read as a uuid")
	}
}

func text(t *testing.T, c *pgx.Conn, q string, args ...any) (s string) {
	t.Helper()
	if err := c.QueryRow(t.Context(), q, args...).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), pgtest.Empty(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
