package schedule

import (
	"cmp"
	"slices"
	"sort"
)

// segment maps a run of civil labels [a, b) to instants: label - off. Fires of
// a schedule are the matching labels of the segments of its class.
type segment struct {
	a, b  int64
	reach int64 // end of the latest instants of this and all earlier segments of the page
	off   int32 // UTC offset by which the labels are read
	shift int32 // what the clock shows there minus the label; 0 unless moved out of a gap
	fold  uint8 // which of several times the clock shows the label; 0 = the only one
}

func (s segment) begin() int64 { return s.a - int64(s.off) }
func (s segment) end() int64   { return s.b - int64(s.off) }

// page holds the segments whose instants lie in [from, to), sorted by the
// instant at which they begin.
type page struct {
	index    int64
	from, to int64
	elapsed  []segment // every label whenever the clock shows it; instants are disjoint
	wall     []segment // every label one time
}

// page returns the page that holds instant t. held is a page that the caller
// already has, or nil.
func (z *zone) page(t int64, held *page) *page {
	i := floorDiv(t-pageOrigin, pageSpan)
	if held != nil && held.index == i {
		return held
	}
	if i < 0 || i >= keptPages {
		return z.makePage(i)
	}
	if p := z.pages[i].Load(); p != nil {
		return p
	}
	p := z.makePage(i)
	z.pages[i].Store(p) // two callers may both get here; their pages are equal
	return p
}

func (z *zone) makePage(i int64) *page {
	p := &page{index: i, from: pageOrigin + i*pageSpan, to: pageOrigin + (i+1)*pageSpan}
	// Offsets stay within 26 hours, so what lies further than this from the
	// page shares no label with it.
	const margin = 4 * day
	ps := z.periods(p.from-margin, p.to+margin)
	for i := range ps {
		p.addShown(ps, i)
		p.addSkipped(ps, i)
	}
	p.elapsed = finish(p.elapsed)
	p.wall = finish(p.wall)
	return p
}

// addShown adds the labels that period i shows, cut where the number of times
// they are shown changes.
func (p *page) addShown(ps []period, i int) {
	a, b := ps[i].shown()
	near := neighbours(ps, i)
	cuts := labelCuts(near, a, b)
	for k := 0; k+1 < len(cuts); k++ {
		before, total := 0, 0
		for _, q := range near {
			if qa, qb := q.shown(); qa <= cuts[k] && cuts[k+1] <= qb {
				total++
				if q.from < ps[i].from {
					before++
				}
			}
		}
		s := segment{a: cuts[k], b: cuts[k+1], off: int32(ps[i].off)}
		if total > 1 {
			s.fold = uint8(before + 1)
		}
		p.elapsed = p.clip(p.elapsed, s)
		if before == 0 {
			p.wall = p.clip(p.wall, s)
		}
	}
}

// addSkipped adds the labels that the clock skips between period i and the
// next, read with the offset of period i. Labels that some period shows, or an
// earlier gap has already moved, are not among them.
func (p *page) addSkipped(ps []period, i int) {
	if i+1 == len(ps) {
		return
	}
	_, a := ps[i].shown()
	b, _ := ps[i+1].shown()
	if a >= b {
		return
	}
	near := neighbours(ps, i)
	cuts := labelCuts(near, a, b)
	for _, q := range near { // where the moved instants cross into another period
		if u := q.from + ps[i].off; a < u && u < b {
			cuts = append(cuts, u)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for k := 0; k+1 < len(cuts); k++ {
		lo, hi := cuts[k], cuts[k+1]
		s := segment{a: lo, b: hi, off: int32(ps[i].off)}
		taken := false
		for j, q := range near {
			qa, qb := q.shown()
			taken = taken || qa <= lo && hi <= qb
			if j > 0 && q.from < ps[i+1].from {
				_, ga := near[j-1].shown()
				taken = taken || ga <= lo && hi <= qa
			}
			if at := s.begin(); q.from <= at && at < q.to {
				s.shift = int32(q.off - ps[i].off)
			}
		}
		if !taken {
			p.wall = p.clip(p.wall, s)
		}
	}
}

// neighbours returns the periods around i that may share a label with it or
// with the gap after it.
func neighbours(ps []period, i int) []period {
	const span = 54 * hour
	lo, hi := i, i+1
	for lo > 0 && ps[lo-1].to > ps[i].from-span {
		lo--
	}
	for hi < len(ps) && ps[hi].from < ps[i].to+span {
		hi++
	}
	return ps[lo:hi]
}

// labelCuts returns a, b and every edge between them of what the periods show.
func labelCuts(ps []period, a, b int64) []int64 {
	cuts := []int64{a, b}
	for _, q := range ps {
		qa, qb := q.shown()
		for _, u := range [2]int64{qa, qb} {
			if a < u && u < b {
				cuts = append(cuts, u)
			}
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// clip appends the part of s whose instants lie on the page.
func (p *page) clip(list []segment, s segment) []segment {
	s.a = max(s.a, p.from+int64(s.off))
	s.b = min(s.b, p.to+int64(s.off))
	if s.a >= s.b {
		return list
	}
	return append(list, s)
}

func finish(list []segment) []segment {
	slices.SortFunc(list, func(x, y segment) int {
		return cmp.Or(cmp.Compare(x.begin(), y.begin()), cmp.Compare(x.end(), y.end()))
	})
	for i := range list {
		list[i].reach = list[i].end()
		if i > 0 {
			list[i].reach = max(list[i].reach, list[i-1].reach)
		}
	}
	return slices.Clip(list)
}

// reaching returns the index of the first segment that has, or follows one
// that has, an instant at or after t.
func reaching(list []segment, t int64) int {
	return sort.Search(len(list), func(i int) bool { return list[i].reach > t })
}

// reading returns the segment that says what the clock shows at t, an instant
// of the page.
func (p *page) reading(t int64) segment { return p.elapsed[reaching(p.elapsed, t)] }
