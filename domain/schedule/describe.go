package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Describe says in words when the schedule fires, always with its zone:
// "Every day at 02:30 (America/New_York)".
func (s *Schedule) Describe() string { return describe([]*Schedule{s}) }

// Describe says in words when the set fires.
func (s *Set) Describe() string { return describe(s.parts) }

func describe(parts []*Schedule) string {
	var b strings.Builder
	zoned := false
	for i, s := range parts {
		words := s.words()
		if i > 0 {
			b.WriteString("; also ")
			if strings.HasPrefix(words, "Every") || strings.HasPrefix(words, "At") || strings.HasPrefix(words, "One time") {
				words = strings.ToLower(words[:1]) + words[1:]
			}
		}
		b.WriteString(words)
		zoned = zoned || s.class == ClassWall || s.class == ClassElapsed
	}
	s := parts[0]
	if zoned {
		b.WriteString(" (" + s.zone.name + ")")
	}
	if !s.start.IsZero() {
		b.WriteString("; not before " + s.start.UTC().Format(time.RFC3339Nano))
	}
	if !s.end.IsZero() {
		b.WriteString("; ends before " + s.end.UTC().Format(time.RFC3339Nano))
	}
	if s.skip != nil {
		switch n := len(s.skip.days); n {
		case 1:
			y, m, d := dateOf(s.skip.days[0])
			b.WriteString("; not on " + Date{y, time.Month(m), d}.String())
		default:
			fmt.Fprintf(&b, "; not on %d excluded dates", n)
		}
	}
	return b.String()
}

// words describes one expression, without its zone.
func (s *Schedule) words() string {
	switch s.class {
	case ClassInterval:
		from := time.Unix(s.anchor, int64(s.frac)).UTC()
		d := floorDiv(s.anchor, day)
		clock := appendClock(nil, int(s.anchor-d*day), s.frac)
		return fmt.Sprintf("Every %s, counted from %s %s UTC", spell(s.every), from.Format(time.DateOnly), clock)
	case ClassInstant:
		at := time.Unix(s.anchor, int64(s.frac)).UTC()
		text := "One time, at " + at.Format(time.RFC3339Nano)
		if s.zone.name != "UTC" {
			local := formatLabel(s.anchor+s.zone.offset(s.anchor), s.frac)
			text += " (" + strings.Replace(local, "T", " ", 1) + " in " + s.zone.name + ")"
		}
		return text
	}
	return s.cron.words()
}

// spell writes a number of seconds in the largest unit that divides it.
func spell(sec int64) string {
	n, unit := sec, "second"
	switch {
	case sec%hour == 0:
		n, unit = sec/hour, "hour"
	case sec%minute == 0:
		n, unit = sec/minute, "minute"
	}
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

func (c *cron) words() string {
	t := c.timeWords()
	allDom, allDow := c.dom.full(), c.dow.full()
	var text string
	month := "of the month"
	months, oneMonth := c.monthWords()
	if oneMonth {
		month = "of " + months
	}
	named := false // the month is already in the text
	switch {
	case allDom && allDow, !c.and && (allDom || allDow):
		text = t.after("Every day")
		if t.whole {
			text = capital(t.text)
		}
	case allDom && c.dow.plain():
		text = t.after(c.dow.head())
	case allDom:
		text = capital(t.text) + " on " + c.dow.items("any ") + " " + month
		named = oneMonth
	default:
		text = capital(t.text) + " on " + c.dom.items() + " " + month
		named = oneMonth
		switch {
		case !c.and:
			text += ", or on " + c.dow.items("any ")
			if !c.dow.plain() {
				text += " " + month
			} else if oneMonth {
				text += " in " + months
			}
		case !allDow:
			text += ", if it is " + c.dow.items("a ")
		}
	}
	if c.month != everyMonth && !named {
		text += ", only in " + months
	}
	return text
}

// timeWords are the words for minutes and hours.
type timeText struct {
	text  string
	rate  bool // "every …" rather than "at …"
	whole bool // covers the day, so that "every day" need not be said
}

// after puts the time behind the words for a day.
func (t timeText) after(day string) string {
	if t.rate {
		return day + ", " + t.text
	}
	return day + " " + t.text
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
