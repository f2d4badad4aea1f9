package schedule

import (
	"fmt"
	"strings"
	"time"
)

const year = 366 * day

// ClockChange is one coming change of a zone's UTC offset and what it does to
// a schedule.
type ClockChange struct {
	At     time.Time `json:"at"`     // the instant, UTC
	From   string    `json:"from"`   // what the clock would have shown, 2026-03-08T02:00
	To     string    `json:"to"`     // what it shows instead
	Before string    `json:"before"` // UTC offset before, -05:00
	After  string    `json:"after"`  // and after
	Effect string    `json:"effect"` // in words
}

// ClockChanges lists the changes of the zone's offset in the 366 days after an
// instant and what each does to this schedule. The list is empty in a zone
// without them, and for an instant.
func (s *Schedule) ClockChanges(after time.Time) []ClockChange {
	return clockChanges([]*Schedule{s}, after)
}

// ClockChanges lists the changes of the zone's offset in the 366 days after an
// instant and what each does to the set.
func (s *Set) ClockChanges(after time.Time) []ClockChange { return clockChanges(s.parts, after) }

func clockChanges(parts []*Schedule, after time.Time) []ClockChange {
	out := []ClockChange{}
	z := parts[0].zone
	for _, t := range z.turns(second(after)) {
		var effects, idle []string
		for _, s := range parts {
			text, touched := s.effect(t)
			if text == "" {
				continue
			}
			if len(parts) > 1 {
				text = "`" + s.expr + "`: " + text
			}
			if touched {
				effects = append(effects, text)
			} else {
				idle = append(idle, text)
			}
		}
		if len(effects) == 0 && len(idle) > 0 {
			effects = []string{untouched}
		}
		if len(effects) == 0 {
			continue
		}
		out = append(out, ClockChange{
			At:     time.Unix(t.at, 0).UTC(),
			From:   formatLabel(t.at+t.before, 0),
			To:     formatLabel(t.at+t.after, 0),
			Before: formatOffset(t.before),
			After:  formatOffset(t.after),
			Effect: strings.Join(effects, "; "),
		})
	}
	return out
}

const untouched = "no fire is touched"

// turn is a change of offset at an instant.
type turn struct{ at, before, after int64 }

// turns lists the changes in the 366 days after t.
func (z *zone) turns(t int64) []turn {
	ps := z.periods(t, t+year)
	var out []turn
	for i := 1; i < len(ps); i++ {
		out = append(out, turn{ps[i].from, ps[i-1].off, ps[i].off})
	}
	return out
}

// effect says what a change does to one schedule, and whether it moves or
// repeats a fire or changes their spacing.
func (s *Schedule) effect(t turn) (text string, touched bool) {
	switch s.class {
	case ClassInstant:
		return "", false
	case ClassInterval:
		return s.across(t, "counted in real time"), true
	case ClassElapsed:
		return s.across(t, "follows the clock"), true
	}
	if t.after > t.before {
		text = s.moved(t)
	} else {
		text = s.repeated(t)
	}
	if text == "" {
		return untouched, false
	}
	return text, true
}

// across names the fires on both sides of a change and the time between them.
func (s *Schedule) across(t turn, why string) string {
	c := cursor{s: s}
	x, ok1 := c.prev(t.at - 1)
	y, ok2 := c.next(t.at)
	if !ok1 || !ok2 {
		return why
	}
	_, g := c.read(x.sec)
	_, h := c.read(y.sec)
	return fmt.Sprintf("%s: %s (%s) is followed by %s (%s), %s later", why,
		clockOf(x.label, s.frac), formatOffset(int64(g.off)), clockOf(y.label, s.frac), formatOffset(int64(h.off)), span(y.sec-x.sec))
}

// moved describes the fires that a gap moves; empty when there are none.
func (s *Schedule) moved(t turn) string {
	n, first, last := s.inside(t.at+t.before, t.at+t.after)
	if n == 0 {
		return ""
	}
	shift := t.after - t.before
	to := clockOf(last+shift, 0)
	switch days := floorDiv(last+shift, day) - floorDiv(last, day); {
	case days == 1:
		to += " the next day"
	case days > 1:
		to += fmt.Sprintf(" %d days later", days)
	}
	var text string
	switch n {
	case 1:
		text = fmt.Sprintf("%s does not exist that day; moved to %s", clockOf(first, 0), to)
	case 2:
		text = fmt.Sprintf("%s and %s do not exist that day; moved to %s and %s", clockOf(first, 0), clockOf(last, 0), clockOf(first+shift, 0), to)
	default:
		text = fmt.Sprintf("%d fires from %s to %s do not exist that day; moved by %s", n, clockOf(first, 0), clockOf(last, 0), span(shift))
	}
	return text + s.merges(first, last, shift)
}

// merges says when moved fires fall on fires that are named anyway.
func (s *Schedule) merges(first, last, shift int64) string {
	same, all := 0, 0
	for u, ok := s.cron.ceil(first, last+1); ok; u, ok = s.cron.ceil(u+minute, last+1) {
		all++
		if s.cron.matches(u + shift) {
			same++
		}
	}
	switch {
	case same == 0:
		return ""
	case same == 1 && all == 1:
		return ", which is named too: one fire"
	case same == all:
		return ", which are named too: one fire each"
	}
	return fmt.Sprintf("; %d of them fall on times that are named too: one fire each", same)
}

// repeated describes the fires whose time comes twice; empty when there are
// none.
func (s *Schedule) repeated(t turn) string {
	n, first, last := s.inside(t.at+t.after, t.at+t.before)
	off := formatOffset(t.before)
	switch n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s comes twice that day; fires at the first (%s)", clockOf(first, 0), off)
	case 2:
		return fmt.Sprintf("%s and %s come twice that day; each fires at the first (%s)", clockOf(first, 0), clockOf(last, 0), off)
	}
	return fmt.Sprintf("%d fires from %s to %s come twice that day; each fires at the first (%s)", n, clockOf(first, 0), clockOf(last, 0), off)
}

// inside counts the civil times of a schedule in [a, b) and names the ends.
func (s *Schedule) inside(a, b int64) (n int, first, last int64) {
	first, ok := s.cron.ceil(a, b)
	if !ok {
		return 0, 0, 0
	}
	last, _ = s.cron.floor(b-1, a)
	return s.cron.count(a, b), first, last
}

// clockOf writes the time of day of a label.
func clockOf(label int64, nsec int32) string {
	return string(appendClock(nil, int(label-floorDiv(label, day)*day), nsec))
}

// span writes a number of seconds: 1 hour, 90 minutes.
func span(sec int64) string {
	text := spell(sec)
	if text[0] > '9' {
		return "1 " + text
	}
	return text
}

// formatOffset writes a UTC offset as -05:00, with seconds where there are any.
func formatOffset(off int64) string {
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	return string(appendClock([]byte{sign}, int(off), 0))
}
