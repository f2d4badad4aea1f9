//go:build linux

package crashtest

import (
	varint "encoding/binary"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
)

// watchOutbox has the database itself note every row that is written into the
// outbox: the rows go when their messages are out.
func watchOutbox(t *testing.T, admin *pgxpool.Pool) {
	t.Helper()
	const sql = `
CREATE SCHEMA witness;
CREATE TABLE witness.outbox (xid xid8 NOT NULL, pack bytea NOT NULL);
CREATE FUNCTION witness.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO witness.outbox VALUES (pg_current_xact_id(), NEW.pack);
  RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION witness.note();`
	if _, err := admin.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// readDispatches gives what was written into the outbox, and the transactions
// that wrote the claims.
func readDispatches(t *testing.T, admin *pgxpool.Pool, h *judge.History) {
	t.Helper()
	h.Dispatches, h.Claims = []judge.Dispatch{}, []judge.Claimed{}
	rows, err := admin.Query(t.Context(), "SELECT xid::text, pack FROM witness.outbox")
	if err != nil {
		t.Fatal(err)
	}
	var xid string
	var pack []byte
	_, err = pgx.ForEachRow(rows, []any{&xid, &pack}, func() error {
		all, err := unpack(pack)
		for i := range all {
			all[i].Transaction = xid
		}
		h.Dispatches = append(h.Dispatches, all...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err = admin.Query(t.Context(), "SELECT xid::text, (data->>'claim_id')::uuid FROM events WHERE category = 'run' AND type = 'RunClaimed'")
	if err != nil {
		t.Fatal(err)
	}
	if h.Claims, err = pgx.CollectRows(rows, pgx.RowToStructByPos[judge.Claimed]); err != nil {
		t.Fatal(err)
	}
}

// unpack reads a pack of the outbox, version 1, without the product's help.
func unpack(b []byte) (out []judge.Dispatch, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("pack of %d bytes: %v", len(b), p)
		}
	}()
	if b[0] != 1 {
		return nil, fmt.Errorf("pack of version %d", b[0])
	}
	at := 1
	number := func() int {
		n, size := varint.Uvarint(b[at:])
		at += size
		return int(n)
	}
	text := func() string {
		n := number()
		at += n
		return string(b[at-n : at])
	}
	id := func() uuid.UUID {
		at += 16
		return uuid.UUID(b[at-16 : at])
	}
	var queue, kind string
	for range number() {
		if at++; b[at-1] == 1 {
			queue, kind = text(), text()
		}
		generation := number()
		for range number() {
			out = append(out, judge.Dispatch{Run: id(), Claim: id(), Generation: generation, Queue: queue, Kind: kind})
			_, size := varint.Varint(b[at:])
			at += size
		}
	}
	return out, nil
}
