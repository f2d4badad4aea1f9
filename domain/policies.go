package domain

import "strconv"

// policies refuses combinations that contradict each other, naming both fields.
// docs/schedules.md says what every other combination comes to.
func (v *validation) policies(s JobSpec) {
	if s.Misfire == MisfireAll && s.Overlap == OverlapReplace {
		v.add("overlap", string(s.Overlap), "contradicts misfire: all, which wants every missed instant to run, where replace ends a run for the next one",
			"use overlap: queue or allow, or misfire: latest")
	}
	c := s.Concurrency
	if c != nil && c.Key == "" && c.Limit > 1 && (s.Overlap == OverlapReplace || s.Overlap == OverlapQueue) {
		v.add("concurrency.limit", strconv.Itoa(c.Limit), "contradicts overlap: "+string(s.Overlap)+", under which at most one scheduled run is in hand",
			"use overlap: allow, or leave the limit out")
	}
}
