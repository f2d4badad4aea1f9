package main

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// escapes are the sequences by which a terminal is steered: CSI and OSC with
// their parameters, and the two-character ones.
var escapes = regexp.MustCompile("\x1b\\[[0-9:;<=>?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?|\u009b[0-9:;<=>?]*[ -/]*[@-~]")

// plain makes text fit for one line of a terminal, whoever wrote it: without
// escape sequences, control characters and what reverses the writing direction.
func plain(s string) string {
	s = escapes.ReplaceAllString(strings.ToValidUTF8(s, "\ufffd"), "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

// plainText is plain for text of several lines.
func plainText(s string) string {
	s = escapes.ReplaceAllString(strings.ToValidUTF8(s, "\ufffd"), "")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, s)
}

// short cuts text for a table.
func short(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)
	return strings.TrimRight(string(r[:limit-1]), " ") + "…"
}

// clock writes an instant for people: in their zone, to the second.
func (a *app) clock(t time.Time) string {
	zone := a.zone
	if zone == nil {
		zone = time.Local
	}
	return t.In(zone).Format("2006-01-02 15:04:05 MST")
}

func (a *app) clockOr(t *time.Time, none string) string {
	if t == nil {
		return none
	}
	return a.clock(*t)
}

// rough writes a duration with the precision that matters to people.
func rough(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + rough(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d < time.Hour:
		d = d.Round(time.Second)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Hour)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
