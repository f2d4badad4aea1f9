package domain

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/google/uuid"
)

// RetryPolicy says how often a run may be started and how long it waits between
// attempts.
type RetryPolicy struct {
	MaxAttempts int      `json:"max_attempts"`
	Initial     Duration `json:"initial"`
	Max         Duration `json:"max"`
	Multiplier  float64  `json:"multiplier"`
}

// DefaultRetry is the policy of a job that names none.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{MaxAttempts: 5, Initial: Duration(10 * time.Second), Max: Duration(time.Hour), Multiplier: 2}
}

// longestBackoff keeps the spread within a Duration.
const longestBackoff = 1 << 62

// Backoff is the wait after the given failed attempt (1 is the first): Initial
// × Multiplier^(attempt−1), at most Max, spread by ±10 %. The spread is derived
// from run and attempt: many runs that fail together come back apart, and the
// same history gives the same wait.
func (p RetryPolicy) Backoff(run uuid.UUID, attempt int) time.Duration {
	d := float64(max(p.Initial, 0))
	if d > 0 { // the power may be infinite, and 0 × ∞ is no number
		d *= math.Pow(max(p.Multiplier, 1), float64(max(attempt, 1)-1))
	}
	d = min(d, float64(max(p.Max, 0)), longestBackoff)
	sum := digest("backoff", run[:], binary.BigEndian.AppendUint64(nil, uint64(attempt)))
	u := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
	return time.Duration(d * (0.9 + 0.2*u)).Truncate(time.Microsecond)
}

// Releases that never led to a start are free. From the third in a row the run
// is put off, so that a run nobody can start does not circle through the broker.
const (
	freeReleases    = 2
	releaseBase     = time.Second
	releaseMax      = 5 * time.Minute
	AlertDispatches = 10 // claims in a row without a start that deserve an alert
)

// releaseDelay is the wait after the given number of claims in a row that ended
// without a start.
func releaseDelay(dispatches int) time.Duration {
	n := dispatches - freeReleases
	if n <= 0 {
		return 0
	}
	return min(releaseBase<<min(n-1, 12), releaseMax)
}
