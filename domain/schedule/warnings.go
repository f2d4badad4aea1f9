package schedule

import (
	"fmt"
	"time"
)

// Codes of warnings. A schedule with warnings is accepted.
const (
	WarnEitherDay   = "W_EITHER_DAY"   // both day fields are restricted: either is enough
	WarnShortMonths = "W_SHORT_MONTHS" // a day that not every month has
	WarnStep        = "W_STEP"         // a step whose last stride is shorter, or that matches one value
	WarnGap         = "W_GAP"          // within a year a fire is moved out of a skipped time
	WarnOverlap     = "W_OVERLAP"      // within a year a fire's time comes twice
	WarnDrift       = "W_DRIFT"        // an interval of whole days moves against the local clock
	WarnFrequent    = "W_FREQUENT"     // more often than once a minute on average
	WarnNoFire      = "W_NO_FIRE"      // nothing fires any more
	WarnDuplicate   = "W_DUPLICATE"    // an expression is given twice
)

// Warning is something that the author of a schedule may not expect.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Warnings lists what may surprise the author, looking ahead from an instant
// where that matters.
func (s *Schedule) Warnings(now time.Time) []Warning { return warnings([]*Schedule{s}, now) }

// Warnings lists what may surprise the author of the set.
func (s *Set) Warnings(now time.Time) []Warning { return warnings(s.parts, now) }

func warnings(parts []*Schedule, now time.Time) []Warning {
	out := []Warning{}
	seen := map[string]bool{}
	for _, s := range parts {
		prefix := ""
		if len(parts) > 1 {
			prefix = "`" + s.expr + "`: "
		}
		if seen[s.expr] {
			out = append(out, Warning{WarnDuplicate, prefix + "given twice; its instants fire one time"})
			continue
		}
		seen[s.expr] = true
		for _, w := range s.warnings(now) {
			out = append(out, Warning{w.Code, prefix + w.Message})
		}
	}
	if len(parts) > 1 {
		// Each part alone is within the limit, or has been reported above.
		if n := (&Set{parts}).perDay(now); n > 1440 {
			out = append(out, Warning{WarnFrequent, fmt.Sprintf("together %d fires a day: more often than once a minute", n)})
		}
	}
	return out
}

// perDay counts the fires of a day, unless the counts of the parts show that
// they cannot exceed one a minute.
func (s *Set) perDay(now time.Time) int {
	total := 0
	for _, p := range s.parts {
		n := p.Count(now, now.Add(24*time.Hour))
		if n > 1440 {
			return 0
		}
		total += n
	}
	if total <= 1440 {
		return total
	}
	return s.Count(now, now.Add(24*time.Hour))
}

func (s *Schedule) warnings(now time.Time) []Warning {
	var out []Warning
	add := func(code, format string, args ...any) {
		out = append(out, Warning{code, fmt.Sprintf(format, args...)})
	}
	if _, ok := s.Next(now); !ok {
		if _, ok := (&cursor{s: s}).next(s.lo); ok {
			add(WarnNoFire, "no fire after %s", now.UTC().Format(time.RFC3339))
		} else {
			add(WarnNoFire, "never fires: start_at, end_at and the excluded dates leave nothing")
		}
	}
	switch s.class {
	case ClassInstant:
		return out
	case ClassInterval:
		if s.every < minute {
			add(WarnFrequent, "every %s: more often than once a minute", spell(s.every))
		}
		if turns := s.zone.turns(second(now)); s.every%day == 0 && len(turns) > 0 {
			add(WarnDrift, "counted in real time: at %s the clock changes from %s to %s and the local time of every later fire with it; name a time of day to keep it",
				time.Unix(turns[0].at, 0).UTC().Format(time.RFC3339), formatOffset(turns[0].before), formatOffset(turns[0].after))
		}
		return out
	}
	c := &s.cron
	if !c.and && !c.dom.full() && !c.dow.full() {
		add(WarnEitherDay, "both day fields are restricted: it fires when either matches; write +%s to require both", s.fields()[4].text)
	}
	if text := c.shortMonths(s.fields()[2]); text != "" {
		add(WarnShortMonths, "%s", text)
	}
	for _, text := range s.stepWarnings() {
		add(WarnStep, "%s", text)
	}
	if s.class == ClassWall {
		s.clockWarnings(now, add)
	}
	return out
}

// clockWarnings reports the first fire within a year that a clock change
// moves, and the first whose time comes twice.
func (s *Schedule) clockWarnings(now time.Time, add func(code, format string, args ...any)) {
	gap, overlap := false, false
	for _, t := range s.zone.turns(second(now)) {
		forward := t.after > t.before
		if forward && gap || !forward && overlap || t.at < s.lo || t.at > s.hi {
			continue
		}
		text, touched := s.effect(t)
		if !touched {
			continue
		}
		date := formatLabel(t.at+min(t.before, t.after), 0)[:len(time.DateOnly)]
		if forward {
			gap = true
			add(WarnGap, "%s: %s", date, text)
		} else {
			overlap = true
			add(WarnOverlap, "%s: %s", date, text)
		}
	}
}
