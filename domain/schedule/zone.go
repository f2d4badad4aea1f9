package schedule

import (
	"sync"
	"sync/atomic"
	"time"
)

// zone answers questions about one time zone from tables of offset periods,
// built on first use, a century at a time.
type zone struct {
	name  string
	loc   *time.Location
	pages [keptPages]atomic.Pointer[page]
}

// A page covers about a century. Pages of 1900-2199 are kept; others are made
// anew when asked for, so memory stays bounded whatever years are asked about.
const (
	pageSpan   = 36525 * day
	pageOrigin = -2208988800 // 1900-01-01T00:00:00Z
	keptPages  = 3
)

// Instants outside these bounds are never fires: civil years stay 1 to 9999 in
// every zone.
const (
	earliest = -62135596800 + 2*day
	latest   = 253402300799 - 2*day
)

// zones holds what time.LoadLocation has found, so that within one process a
// name has one meaning. The bound only matters on file systems that accept a
// name in several spellings.
var (
	zones     sync.Map // string → *zone
	zoneCount atomic.Int32
)

const maxZones = 2048

func loadZone(name string, load func(string) (*time.Location, error)) (*zone, error) {
	if name == "" {
		name = "UTC"
	}
	if load == nil {
		if z, ok := zones.Load(name); ok {
			return z.(*zone), nil
		}
	}
	find := load
	if find == nil {
		find = time.LoadLocation
	}
	if !zoneName(name) {
		return nil, unknownZone(name, find)
	}
	loc, err := find(name)
	if err != nil || loc == nil {
		return nil, unknownZone(name, find)
	}
	z := &zone{name: name, loc: loc}
	if load == nil && zoneCount.Load() < maxZones {
		kept, old := zones.LoadOrStore(name, z)
		if !old {
			zoneCount.Add(1)
		}
		z = kept.(*zone)
	}
	return z, nil
}

// period is a span of instants [from, to) with one UTC offset.
type period struct {
	from, to int64
	off      int64
}

// shown returns the civil labels that the clock shows during the period.
func (p period) shown() (a, b int64) { return p.from + p.off, p.to + p.off }

func (z *zone) offset(t int64) int64 {
	_, off := time.Unix(t, 0).In(z.loc).Zone()
	return int64(off)
}

// periods returns the offset periods of [from, to), the first and last cut to
// those bounds. Neighbours differ in offset.
func (z *zone) periods(from, to int64) []period {
	var out []period
	for t := from; t < to; {
		end, ok := z.change(t, to)
		if !ok {
			end = to
		}
		out = append(out, period{t, end, z.offset(t)})
		t = end
	}
	return out
}

// change returns the first instant after t, and before limit, at which the
// offset differs from the one at t.
func (z *zone) change(t, limit int64) (int64, bool) {
	off := z.offset(t)
	for t < limit {
		_, bound := time.Unix(t, 0).In(z.loc).ZoneBounds()
		if bound.IsZero() {
			return 0, false
		}
		// The bounds of a period that comes from the zone's recurring rule may
		// be cut at a year, and on the last day of a leap year the end may even
		// lie before t. They serve as stepping stones only.
		next := bound.Unix()
		if next <= t {
			next = t + day
		}
		if z.offset(next) == off {
			t = next
			continue
		}
		lo, hi := t, next // offset(lo) == off, offset(hi) != off
		if z.offset(hi-1) == off {
			lo = hi - 1
		}
		for hi-lo > 1 {
			if mid := lo + (hi-lo)/2; z.offset(mid) == off {
				lo = mid
			} else {
				hi = mid
			}
		}
		return hi, hi < limit
	}
	return 0, false
}
