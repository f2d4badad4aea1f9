package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Index: none; jobs are read whole.
const selectJobRows = `SELECT id, name, version, spec_version, paused, archived, spec FROM jobs`

func (v *verifier) jobRows(ctx context.Context) error {
	seen := map[uuid.UUID]bool{}
	err := v.each(ctx, "jobs", selectJobRows, func(rows pgx.Rows) error {
		have := domain.Job{}
		var name string
		var spec []byte
		if err := rows.Scan(&have.ID, &name, &have.Version, &have.SpecVersion, &have.Paused, &have.Archived, &spec); err != nil {
			return err
		}
		seen[have.ID] = true
		want, ok := v.known[have.ID]
		if !ok {
			v.report.add(RuleJobRow, have.ID, "job %q has a row, and no stream that can be folded", name)
			return nil
		}
		if err := json.Unmarshal(spec, &have.Spec); err != nil {
			v.report.add(RuleJobRow, have.ID, "the definition in the row of job %q cannot be read: %v", name, err)
			return nil
		}
		switch changed := have.Spec.Changed(want.Spec); {
		case have.Version != want.Version || have.SpecVersion != want.SpecVersion:
			v.report.add(RuleJobRow, have.ID, "the row of job %q is at version %d (definition %d), its stream at %d (%d)", name, have.Version, have.SpecVersion, want.Version, want.SpecVersion)
		case have.Paused != want.Paused || have.Archived != want.Archived:
			v.report.add(RuleJobRow, have.ID, "the row of job %q and its stream differ on whether it is paused or archived", name)
		case len(changed) > 0:
			v.report.add(RuleJobRow, have.ID, "the definition in the row of job %q differs from its stream's in %s", name, strings.Join(changed, ", "))
		}
		return nil
	})
	for id, job := range v.known {
		if !seen[id] {
			v.report.add(RuleJobRow, id, "job %q has a stream and no row: nobody looks at its instants", job.Spec.Name)
		}
	}
	return err
}

// Index: none; run_keys is read whole. The primary keys of the partitions.
const selectBareKeys = `
SELECT k.run_id, k.key FROM run_keys k
 WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.category = 'run' AND e.stream_id = k.run_id AND e.version = 1) LIMIT 1000`

func (v *verifier) keys(ctx context.Context) error {
	return v.each(ctx, "keys", selectBareKeys, func(rows pgx.Rows) error {
		var id uuid.UUID
		var key string
		if err := rows.Scan(&id, &key); err != nil {
			return err
		}
		v.report.add(RuleKey, id, "key %q names it, and the log does not have it", key)
		return nil
	})
}

// A lease that is over is closed within seconds, as long as there is an engine.
// Index: none; the tables hold live runs only.
const selectLive = `
SELECT 'due_runs', run_id, version, NULL::uuid, false, NULL::timestamptz FROM due_runs
UNION ALL SELECT 'waiting_runs', run_id, version, NULL, false, NULL FROM waiting_runs
UNION ALL SELECT 'claims', run_id, version, claim_id, start_token IS NOT NULL, CASE WHEN lease_until < now() - interval '1 minute' AND EXISTS (
            SELECT FROM engines WHERE seen_at > now() - interval '15 s' AND first_seen < now() - interval '1 minute' AND 'engine' = ANY (string_to_array(roles, ','))) THEN lease_until END FROM claims
UNION ALL SELECT 'parked_runs', run_id, 0, NULL, false, NULL FROM parked_runs p
          WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.run_id = p.run_id)`

func (v *verifier) liveRows(ctx context.Context) error {
	rows, err := v.tx.Query(ctx, selectLive)
	if err != nil {
		return fmt.Errorf("read live rows: %w", err)
	}
	defer rows.Close()
	seen := map[uuid.UUID]string{}
	for rows.Next() {
		var table string
		var id uuid.UUID
		var version int
		var claim *uuid.UUID
		var started bool
		var lapsed *time.Time
		if err := rows.Scan(&table, &id, &version, &claim, &started, &lapsed); err != nil {
			return err
		}
		if lapsed != nil {
			v.report.add(RuleLapsed, id, "the lease of its claim ended at %s, and no engine has closed it", clock(*lapsed))
		}
		v.report.Live++
		if first, twice := seen[id]; twice {
			v.report.add(RuleLiveRow, id, "lies in %s and in %s", first, table)
		}
		seen[id] = table
		r, open := v.open[id]
		switch {
		case !open:
			v.report.add(RuleLiveRow, id, "lies in %s, and its stream is final or absent", table)
		case table == "parked_runs":
		case r.Version != version:
			v.report.add(RuleLiveRow, id, "its row in %s is at version %d, its stream at %d", table, version, r.Version)
		case (table == "claims") != r.InHand():
			v.report.add(RuleLiveRow, id, "lies in %s, and its stream says %s", table, r.State)
		case table == "claims" && r.ClaimID != *claim:
			v.report.add(RuleLiveRow, id, "its row holds claim %s, its stream claim %s", claim, r.ClaimID)
		case table == "claims" && started != (r.State == domain.Running):
			v.report.add(RuleLiveRow, id, "its row and its stream differ on whether it has started")
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for id, r := range v.open {
		if seen[id] == "" {
			v.report.add(RuleLiveRow, id, "is %s and lies in no table: nobody will go on with it", r.State)
		}
	}
	return nil
}

// Index: run_slots is read whole; the primary keys of the partitions. What the
// log has let go of is counted against what the jobs' streams say of it.
const (
	selectBareSlots = `
SELECT s.run_id, s.scheduled_at FROM run_slots s
 WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.category = 'run' AND e.stream_id = s.run_id AND e.version = 1)
   AND NOT EXISTS (SELECT 1 FROM retired_months m WHERE m.dropped_at IS NOT NULL AND m.month = date_trunc('month', s.scheduled_at AT TIME ZONE 'UTC')::date) LIMIT 1000`
	selectRetiredSlots = `
WITH s AS (
  SELECT s.job_id, date_trunc('month', s.scheduled_at AT TIME ZONE 'UTC')::date AS month, count(*) AS slots FROM run_slots s
   WHERE date_trunc('month', s.scheduled_at AT TIME ZONE 'UTC')::date IN (SELECT month FROM retired_months WHERE dropped_at IS NOT NULL)
     AND NOT EXISTS (SELECT 1 FROM events e WHERE e.category = 'run' AND e.stream_id = s.run_id AND e.version = 1) GROUP BY 1, 2),
     r AS (SELECT job_id, month, sum(slots) AS slots FROM retired_runs GROUP BY 1, 2)
SELECT coalesce(s.job_id, r.job_id), coalesce(s.month, r.month), coalesce(s.slots, 0)::bigint, coalesce(r.slots, 0)::bigint
  FROM s FULL JOIN r ON r.job_id = s.job_id AND r.month = s.month WHERE coalesce(s.slots, 0) <> coalesce(r.slots, 0)`
)

func (v *verifier) slots(ctx context.Context) error {
	err := v.each(ctx, "slots", selectBareSlots, func(rows pgx.Rows) error {
		var id uuid.UUID
		var at time.Time
		if err := rows.Scan(&id, &at); err != nil {
			return err
		}
		v.report.add(RuleSlot, id, "the ledger names it for %s, and the log does not have it", clock(at))
		return nil
	})
	if err != nil {
		return err
	}
	return v.each(ctx, "retired slots", selectRetiredSlots, func(rows pgx.Rows) error {
		var job uuid.UUID
		var month time.Time
		var have, want int64
		if err := rows.Scan(&job, &month, &have, &want); err != nil {
			return err
		}
		v.report.add(RuleSlot, job, "of the retired runs of %s the ledger has %d instants, and the job's stream says %d", month.Format("2006-01"), have, want)
		return nil
	})
}

// each reads the rows of one statement.
func (v *verifier) each(ctx context.Context, what, sql string, see func(pgx.Rows) error) error {
	rows, err := v.tx.Query(ctx, sql)
	if err != nil {
		return fmt.Errorf("read %s: %w", what, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := see(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Index: limit_holders is read whole; it holds live runs only.
const selectHoldersAll = `SELECT run_id, key FROM limit_holders`

func (v *verifier) places(ctx context.Context) error {
	rows, err := v.tx.Query(ctx, selectHoldersAll)
	if err != nil {
		return fmt.Errorf("read places: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		var key string
		if err := rows.Scan(&id, &key); err != nil {
			return err
		}
		r, open := v.open[id]
		switch {
		case !open:
			v.report.add(RulePlaces, id, "has the place %s although it is final", key)
		case !domain.UntilTerminal(key) && !r.InHand():
			v.report.add(RulePlaces, id, "has the place %s although it is not in hand", key)
		}
	}
	return rows.Err()
}
