package domain

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A Place is something of which only so many runs may have one: the right to run
// while no other instant of the job does, or a share of a concurrency limit.
type Place struct {
	Key      string
	Capacity int
	Overlap  Overlap // the policy of an overlap place; empty for a concurrency place
}

// Held reports how long a run keeps the place: an overlap place until it is
// terminal, through retries and releases, a concurrency place while it is in
// hand.
func (p Place) untilTerminal() bool { return p.Overlap != "" }

const (
	overlapPrefix = "overlap:"
	limitPrefix   = "limit:"
)

// UntilTerminal reports whether the place of that key is kept until the run is
// terminal. Otherwise it is given back when the claim ends.
func UntilTerminal(key string) bool {
	return len(key) > len(overlapPrefix) && key[:len(overlapPrefix)] == overlapPrefix
}

// Places are what a run needs before it can be claimed. Overlap governs
// scheduled instants; requested and backfilled runs neither wait for one nor
// hold one.
func (s JobSpec) Places(r Run) []Place {
	var places []Place
	if s.Overlap != OverlapAllow && s.Overlap != "" && r.Origin == OriginSchedule {
		places = append(places, Place{Key: overlapPrefix + r.JobID.String(), Capacity: 1, Overlap: s.Overlap})
	}
	if c := s.Concurrency; c != nil {
		key := limitPrefix + r.JobID.String()
		if c.Key != "" {
			args := r.Args
			if len(args) == 0 {
				args = s.Args
			}
			key += ":" + argument(args, c.Key)
		}
		places = append(places, Place{Key: key, Capacity: c.Limit})
	}
	return places
}

// argument names the value of a top-level field: as it is if it is short, else
// by its hash. A missing field, or arguments that are no object, are one value.
func argument(args json.RawMessage, field string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return ""
	}
	v := canonical(fields[field])
	const short = 64
	if len(v) <= short && !bytes.ContainsAny(v, "\x00") {
		return string(v)
	}
	sum := digest("argument", v)
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// Occupancy is who has a place and who waits for it.
type Occupancy struct {
	Holders []uuid.UUID
	Waiting int // runs set aside for it, not counting the one that is decided
}

// PlaceVerdict says what becomes of a due run that needs places.
type PlaceVerdict struct {
	Wait    string      // the key to wait for
	Skip    *RunSkipped // the run is decided against
	Replace uuid.UUID   // the run that is asked to stop; the due one waits, alone
	Take    []string    // keys to take: the run is claimed
}

// Reasons of RunSkipped.
const (
	SkippedOverlap = "overlap"            // an earlier run of the job is not finished
	SkippedQueue   = "overlap_queue_full" // and another one waits already
	SkippedReplace = "replaced"           // a later instant took the place it waited for
)

// DecidePlaces decides a due run's places on who has them. The caller holds the
// keys locked. A run that was set aside before keeps waiting, and catch-up runs
// queue whatever the policy.
func DecidePlaces(r Run, places []Place, taken map[string]Occupancy) PlaceVerdict {
	waited := !r.WaitingSince.IsZero()
	var v PlaceVerdict
	for _, p := range places {
		o := taken[p.Key]
		if slices.Contains(o.Holders, r.ID) {
			continue
		}
		if len(o.Holders) < p.Capacity && (waited || o.Waiting == 0) {
			v.Take = append(v.Take, p.Key)
			continue
		}
		if !p.untilTerminal() || len(o.Holders) == 0 || r.CatchUp {
			return PlaceVerdict{Wait: p.Key}
		}
		blocker := o.Holders[0]
		if p.Overlap == OverlapReplace { // asking again does no harm: the first to ask may have crashed
			return PlaceVerdict{Wait: p.Key, Replace: blocker}
		}
		if waited {
			return PlaceVerdict{Wait: p.Key}
		}
		switch p.Overlap {
		case OverlapQueue:
			if o.Waiting > 0 {
				return PlaceVerdict{Skip: &RunSkipped{Reason: SkippedQueue, BlockedBy: &blocker}}
			}
			return PlaceVerdict{Wait: p.Key}
		case OverlapSkip, OverlapAllow, OverlapReplace:
		}
		return PlaceVerdict{Skip: &RunSkipped{Reason: SkippedOverlap, BlockedBy: &blocker}}
	}
	return v
}

// JitterDelay is how much later than its instants a job's runs come due: the
// same for each of them, so that it can be foreseen, below the jitter and below
// the gap to the next instant.
func JitterDelay(job uuid.UUID, jitter, gap time.Duration) time.Duration {
	limit := jitter
	if gap > 0 {
		limit = min(limit, gap)
	}
	if limit <= 0 {
		return 0
	}
	sum := digest("jitter", job[:])
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(limit)).Truncate(time.Microsecond)
}

// CompareWaiting orders due runs for the decision of their places: who has
// waited goes first, the longest first, then by ready time.
func CompareWaiting(a, b Run) int {
	switch {
	case a.WaitingSince.IsZero() && b.WaitingSince.IsZero():
		return a.ReadyAt.Compare(b.ReadyAt)
	case a.WaitingSince.IsZero():
		return 1
	case b.WaitingSince.IsZero():
		return -1
	}
	return cmp.Or(a.WaitingSince.Compare(b.WaitingSince), a.ReadyAt.Compare(b.ReadyAt))
}
