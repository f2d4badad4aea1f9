package eventstore

import (
	"context"
	"fmt"
	"time"
)

// EnsurePartitions makes the log ready for runs whose instants lie in the range,
// and tells how many monthly partitions it made.
func (s *Store) EnsurePartitions(ctx context.Context, from, to time.Time) (made int, err error) {
	const years = 20 // of which the function takes no more at once
	for ; from.AddDate(years, 0, 0).Before(to); from = from.AddDate(years, 0, 0) {
		n, err := s.EnsurePartitions(ctx, from, from.AddDate(years, 0, -1))
		if made += n; err != nil {
			return made, err
		}
	}
	var n int
	if err := s.loops.QueryRow(ctx, "SELECT daybook_ensure_partition($1, $2)", from, to).Scan(&n); err != nil {
		return made, fmt.Errorf("prepare partitions: %w", err)
	}
	return made + n, nil
}

// partitionsAhead is how far ahead of now partitions are kept ready; requests
// further ahead make theirs.
const partitionsAhead = 92 * 24 * time.Hour

// KeepPartitions makes partitions well ahead of need.
func (s *Store) KeepPartitions(ctx context.Context) (made int, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	return s.EnsurePartitions(ctx, now.AddDate(0, -1, 0), now.Add(partitionsAhead))
}

// span is the range of the instants that a transaction wrote runs for.
type span struct{ from, to time.Time }

func (s *span) add(t time.Time) {
	if s.from.IsZero() || t.Before(s.from) {
		s.from = t
	}
	if t.After(s.to) {
		s.to = t
	}
}

// withPartitions runs the function and, where it lacked a partition for one of
// the runs in its span, makes the log ready and runs it again.
func (s *Store) withPartitions(ctx context.Context, f func(*span) error) error {
	var sp span
	err := f(&sp)
	if sqlState(err) != stateNoPartition || sp.from.IsZero() {
		return err
	}
	if _, err := s.EnsurePartitions(ctx, sp.from, sp.to); err != nil {
		return err
	}
	return f(&sp)
}
