package eventstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Rows are the same however they came: read here, and by the driver.
func TestRunReaderReadsWhatTheDriverDoes(t *testing.T) {
	w := newWorld(t)
	const live = `'0193d5b0-0000-7000-8000-000000000001'::uuid AS run_id, '0193d5b0-0000-7000-8000-000000000002'::uuid AS job_id, 7 AS job_version,
		'schedule' AS origin, 'q' AS queue, 'käse' AS kind, 3::smallint AS priority, '2026-12-01 01:02:03.000004+01'::timestamptz AS scheduled_at,
		'1999-12-31 23:59:59.999999+00'::timestamptz AS ready_at, 11 AS version, 2 AS attempt, 5 AS dispatches, 6 AS claims,
		'2300-01-01 00:00:00+00'::timestamptz AS changed_at, `
	at := time.Date(2026, 12, 1, 0, 2, 3, 4000, time.UTC)
	base := domain.Run{
		ID: uuid.MustParse("0193d5b0-0000-7000-8000-000000000001"), JobID: uuid.MustParse("0193d5b0-0000-7000-8000-000000000002"), JobVersion: 7,
		Origin: "schedule", Queue: "q", Kind: "käse", Priority: 3, ScheduledAt: at, ReadyAt: time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC),
		Version: 11, Attempt: 2, Dispatches: 5, Claims: 6, ChangedAt: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	bare, waited, claimed, running := base, base, base, base
	bare.State, waited.State, waited.Args, waited.CatchUp, waited.WaitingSince = domain.Pending, domain.Pending, []byte(`{"a":1}`), true, at
	claimed.State, claimed.ClaimID, claimed.LeaseUntil = domain.Claimed, base.JobID, at
	running = claimed
	running.State, running.Token, running.Worker, running.StartedAt, running.Deadline = domain.Running, base.ID, "w-1", at, &at
	running.CancelRequested, running.CancelReason = true, "asked"

	const none, token = `NULL::uuid AS start_token, NULL AS worker, NULL::timestamptz AS started_at, NULL::timestamptz AS deadline, false AS cancel, '' AS cancel_reason`,
		`run_id AS start_token, 'w-1' AS worker, scheduled_at AS started_at, scheduled_at AS deadline, true AS cancel, 'asked' AS cancel_reason`
	for _, c := range []struct {
		name, sql string
		read      func(*runReader, pgx.Rows) (domain.Run, error)
		scan      func(pgx.Rows) (domain.Run, error)
		want      []domain.Run
	}{
		{
			"due", `SELECT ` + dueColumns + ` FROM (SELECT ` + live + `NULL::bytea AS args, false AS catch_up, NULL::timestamptz AS waiting_since
				UNION ALL SELECT ` + live + `'{"a":1}', true, '2026-12-01 01:02:03.000004+01') s`,
			(*runReader).due, scanDue, []domain.Run{bare, waited},
		},
		{
			"claims", `SELECT ` + claimColumns + ` FROM (SELECT r.*, ` + none + ` FROM (SELECT ` + live + `NULL::bytea AS args, '0193d5b0-0000-7000-8000-000000000002'::uuid AS claim_id, '2026-12-01 01:02:03.000004+01'::timestamptz AS lease_until) r
				UNION ALL SELECT r.*, ` + token + ` FROM (SELECT ` + live + `NULL::bytea AS args, '0193d5b0-0000-7000-8000-000000000002'::uuid AS claim_id, '2026-12-01 01:02:03.000004+01'::timestamptz AS lease_until) r) s`,
			(*runReader).claim, scanClaim, []domain.Run{claimed, running},
		},
	} {
		for mode, exec := range map[string]pgx.QueryExecMode{"cached": pgx.QueryExecModeCacheStatement, "texts": pgx.QueryExecModeSimpleProtocol} {
			rows, err := w.ops.Query(t.Context(), c.sql, exec)
			if err != nil {
				t.Fatal(err)
			}
			var read runReader
			var got []domain.Run
			if err := eachRow(rows, func(rows pgx.Rows) error {
				by, err := c.scan(rows)
				if err != nil {
					return err
				}
				r, err := c.read(&read, rows)
				got = append(got, r)
				if !reflect.DeepEqual(r, by) {
					t.Errorf("%s, %s: read %+v\nthe driver %+v", c.name, mode, r, by)
				}
				if read.odd || read.binary != (mode == "cached") {
					t.Errorf("%s, %s: the driver had to read the row", c.name, mode)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, %s: have %+v\nwant %+v", c.name, mode, got, c.want)
			}
		}
	}
	rows, err := w.ops.Query(t.Context(), `SELECT `+dueColumns+` FROM (SELECT `+live+`NULL::bytea AS args, false AS catch_up, 'infinity'::timestamptz AS waiting_since) s`)
	if err != nil {
		t.Fatal(err)
	}
	if err := eachRow(rows, func(rows pgx.Rows) error { _, err := new(runReader).due(rows); return err }); err == nil {
		t.Error("an instant that is none was read")
	}
}

func TestRecordedReaderReadsWhatTheDriverDoes(t *testing.T) {
	w := newWorld(t)
	const id = `'0193d5b0-0000-7000-8000-000000000001'::uuid`
	const events = `SELECT ` + recordedColumns + ` FROM (
		SELECT 'run' AS category, ` + id + ` AS stream_id, 1 AS version, 5000000000 AS position, 3::smallint AS era, 'RunClaimed' AS type, 2::smallint AS schema_version,
		       '2026-12-01 01:02:03.000004+01'::timestamptz AS at, 'käse' AS actor, NULL::uuid AS correlation, ` + id + ` AS causation, '{"a": ["ä", 1]}'::jsonb AS data
		UNION ALL SELECT 'job', ` + id + `, 2, -1, 32767::smallint, 'JobPaused', 1::smallint, '1969-01-01 00:00:00+00', 'b', ` + id + `, NULL, 'null') e`
	stream := uuid.MustParse("0193d5b0-0000-7000-8000-000000000001")
	want := []Recorded{
		{Category: "run", StreamID: stream, Version: 1, Position: 5_000_000_000, Era: 3, Type: "RunClaimed", SchemaVersion: 2, At: time.Date(2026, 12, 1, 0, 2, 3, 4000, time.UTC), Actor: "käse", Causation: &stream, Data: []byte(`{"a": ["ä", 1]}`)},
		{Category: "job", StreamID: stream, Version: 2, Position: -1, Era: 32767, Type: "JobPaused", SchemaVersion: 1, At: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC), Actor: "b", Correlation: &stream, Data: []byte(`null`)},
	}
	for mode, exec := range map[string]pgx.QueryExecMode{"cached": pgx.QueryExecModeCacheStatement, "texts": pgx.QueryExecModeSimpleProtocol} {
		rows, err := w.ops.Query(t.Context(), events, exec)
		if err != nil {
			t.Fatal(err)
		}
		var read recordedReader
		var got []Recorded
		if err := eachRow(rows, func(rows pgx.Rows) error {
			r, err := read.read(rows)
			got = append(got, r)
			if read.odd || read.binary != (mode == "cached") {
				t.Errorf("%s: the driver had to read the row", mode)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: have %+v\nwant %+v", mode, got, want)
		}
	}
	// A window's end and its count come with every row.
	rows, err := w.ops.Query(t.Context(), `SELECT '1:2:'::text, 2::bigint, `+recordedColumns+` FROM (`+events+`) e`)
	if err != nil {
		t.Fatal(err)
	}
	var read recordedReader
	var got []Recorded
	var until string
	var count int
	if err := eachRow(rows, func(rows pgx.Rows) error {
		r, err := read.windowed(rows, &until, &count)
		got = append(got, r)
		return err
	}); err != nil || until != "1:2:" || count != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, until %q, %d rows: %+v", err, until, count, got)
	}
}
