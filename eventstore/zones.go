package eventstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// A next fire is computed with the zone data of the replica that decided last.
// Each job keeps a fingerprint of its zone's transitions for the next 18 months;
// a replica whose data gives another one recomputes the next fire and records
// that the rules changed. Instants that have their slot are not touched.
//
// The fingerprint is counted from the beginning of the month, so that replicas
// with the same data agree on it whenever they look.
func zoneFingerprint(spec domain.JobSpec, now time.Time) (string, error) {
	set, err := spec.Instants()
	if err != nil || set == nil {
		return "", err
	}
	month := time.Date(now.UTC().Year(), now.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	return month.Format("2006-01") + ":" + set.Fingerprint(month), nil
}

// Index: jobs_pkey, in its order.
const selectZones = `
SELECT ` + jobColumns + `, zone_fingerprint FROM jobs
 WHERE id > $1 AND next_fire IS NOT NULL AND NOT archived ORDER BY id LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED`

// Index: jobs_pkey.
const updateZone = `
UPDATE jobs SET zone_fingerprint = $2, next_fire = $3, version = $4, changed_at = $5 WHERE id = $1`

// CheckZones compares the zone rules of all jobs with this process's and tells
// how many jobs follow other rules now.
func (s *Store) CheckZones(ctx context.Context) (changed int, err error) {
	var after [16]byte
	const page = 500
	for {
		n, last, moved, err := s.checkZones(ctx, after, page)
		changed += moved
		if err != nil || n < page {
			return changed, err
		}
		after = last
	}
}

func (s *Store) checkZones(ctx context.Context, after [16]byte, limit int) (n int, last [16]byte, moved int, err error) {
	type zoned struct {
		jobRow
		fingerprint string
	}
	var jobs []zoned
	tx, err := begin(ctx, s.loops, selectZones, []any{after, limit}, func(rows pgx.Rows) error {
		var z zoned
		var err error
		z.jobRow, err = scanJob(rows, &z.fingerprint)
		jobs = append(jobs, z)
		last = z.ID
		return err
	})
	if err != nil {
		return 0, last, 0, err
	}
	defer tx.rollback(ctx)
	b := &pgx.Batch{}
	var w jobWrites
	for i := range jobs {
		j := &jobs[i]
		fingerprint, err := zoneFingerprint(j.Spec, tx.now)
		if err != nil { // this process may lack the zone; others need not
			s.log.ErrorContext(ctx, "zone rules of a job cannot be looked at", "job", j.Spec.Name, "error", err)
			continue
		}
		if fingerprint == j.fingerprint {
			continue
		}
		if sameMonth(fingerprint, j.fingerprint) && j.NextFire.After(tx.now) {
			set, err := j.Spec.Instants()
			if err != nil {
				return 0, last, 0, err
			}
			j.NextFire = nil
			if at, ok := j.Job.NextFire(set, j.Watermark); ok {
				j.NextFire = &at
			}
			moved++
			if err := s.recordJobEvent(&w, &j.jobRow, domain.ZoneRulesChanged{Zone: j.Spec.TimeZone, Fingerprint: fingerprint, NextFire: j.NextFire}, tx.now); err != nil {
				return 0, last, 0, err
			}
		}
		b.Queue(updateZone, j.ID, fingerprint, j.NextFire, j.Version, j.ChangedAt)
	}
	if b.Len() == 0 {
		return len(jobs), last, 0, nil
	}
	w.events.queue(b)
	return len(jobs), last, moved, conflict(tx.commit(ctx, b))
}

// sameMonth reports whether two fingerprints were counted from the same month.
// One from another month, or none, says nothing about the rules.
func sameMonth(a, b string) bool { return len(b) > 7 && a[:7] == b[:7] }
