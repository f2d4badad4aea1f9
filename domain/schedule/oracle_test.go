package schedule

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The oracle decides by reading the clock at every minute of a range and
// shares no code with the package: it has its own reader of expressions, and
// knows of offsets only what time.Time shows.

type reading struct {
	at    int64 // Unix seconds
	label int64 // what the clock shows, as Unix seconds of the same UTC time
}

// readClock reads the clock at each UTC minute of [from, to).
func readClock(loc *time.Location, from, to time.Time) []reading {
	out := make([]reading, 0, int(to.Sub(from)/time.Minute))
	for t := from.Unix(); t < to.Unix(); t += 60 {
		l := time.Unix(t, 0).In(loc)
		y, mo, d := l.Date()
		h, mi, s := l.Clock()
		out = append(out, reading{t, time.Date(y, mo, d, h, mi, s, 0, time.UTC).Unix()})
	}
	return out
}

// scan returns the fires that readings imply for instants in [from, to). The
// readings must reach some days further on both sides.
func scan(rs []reading, expr string, from, to time.Time) []int64 {
	p := newPlain(expr)
	fires := map[int64]bool{}
	if p.allHours {
		for _, r := range rs {
			if p.match(r.label) {
				fires[r.at] = true
			}
		}
	} else {
		seen := map[int64]bool{}
		for _, r := range rs {
			if p.match(r.label) && !seen[r.label] {
				seen[r.label] = true
				fires[r.at] = true
			}
		}
		for i := 1; i < len(rs); i++ {
			for skipped := rs[i-1].label + 60; skipped < rs[i].label; skipped += 60 {
				if p.match(skipped) && !seen[skipped] {
					seen[skipped] = true
					fires[rs[i-1].at+skipped-rs[i-1].label] = true
				}
			}
		}
	}
	var out []int64
	for at := range fires {
		if at >= from.Unix() && at < to.Unix() {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return out
}

// plain is a straightforward reading of an expression of numbers and the day
// extensions.
type plain struct {
	minutes, hours, months [64]bool
	dom, dow               string
	allHours               bool
	lastDay                int64 // the day last asked for, and the answer
	lastAnswer             bool
}

func newPlain(expr string) *plain {
	f := strings.Fields(expr)
	p := &plain{minutes: plainSet(f[0], 0, 59), hours: plainSet(f[1], 0, 23), months: plainSet(f[3], 1, 12), dom: f[2], dow: f[4], lastDay: -1}
	p.allHours = true
	for h := range 24 {
		p.allHours = p.allHours && p.hours[h]
	}
	return p
}

func plainSet(field string, low, high int) (set [64]bool) {
	for item := range strings.SplitSeq(field, ",") {
		body, stepText, stepped := strings.Cut(item, "/")
		step := 1
		if stepped {
			step, _ = strconv.Atoi(stepText)
		}
		a, b := low, high
		if body != "*" {
			x, y, ranged := strings.Cut(body, "-")
			a, _ = strconv.Atoi(x)
			b = a
			if ranged {
				b, _ = strconv.Atoi(y)
			} else if stepped {
				b = high
			}
		}
		for v, n := a, 0; ; v, n = v+1, n+1 {
			if v > high {
				v = low
			}
			if n%step == 0 {
				set[v] = true
			}
			if v == b {
				break
			}
		}
	}
	return set
}

func (p *plain) match(label int64) bool {
	if label%60 != 0 {
		return false
	}
	m := (label/60%1440 + 1440) % 1440
	if !p.minutes[m%60] || !p.hours[m/60] {
		return false
	}
	if d := label - m*60; d != p.lastDay {
		t := time.Unix(d, 0).UTC()
		p.lastDay, p.lastAnswer = d, p.months[t.Month()] && p.day(t)
	}
	return p.lastAnswer
}

func (p *plain) day(t time.Time) bool {
	dow, both := strings.CutPrefix(p.dow, "+")
	both = both || p.dom[0] == '*' || p.dom == "?" || dow[0] == '*' || dow == "?"
	a, b := p.domMatch(t), dowMatch(dow, t)
	if both {
		return a && b
	}
	return a || b
}

func (p *plain) domMatch(t time.Time) bool {
	if p.dom == "?" {
		return true
	}
	end := time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC)
	for item := range strings.SplitSeq(p.dom, ",") {
		switch {
		case item == "L":
			if t.Day() == end.Day() {
				return true
			}
		case item == "LW":
			if nearWeekday(end.Day(), end) == t.Day() {
				return true
			}
		case strings.HasPrefix(item, "L-"):
			n, _ := strconv.Atoi(item[2:])
			if t.Day() == end.Day()-n {
				return true
			}
		case strings.HasSuffix(item, "W"):
			n, _ := strconv.Atoi(strings.TrimSuffix(item, "W"))
			if n <= end.Day() && nearWeekday(n, end) == t.Day() {
				return true
			}
		case plainSet(item, 1, 31)[t.Day()]:
			return true
		}
	}
	return false
}

// nearWeekday looks outwards from a day for the nearest Monday to Friday of
// the month.
func nearWeekday(d int, end time.Time) int {
	for _, n := range []int{0, -1, 1, -2, 2} {
		c := time.Date(end.Year(), end.Month(), d+n, 0, 0, 0, 0, time.UTC)
		if c.Month() == end.Month() && c.Weekday() != time.Saturday && c.Weekday() != time.Sunday {
			return c.Day()
		}
	}
	panic("no weekday")
}

func dowMatch(field string, t time.Time) bool {
	if field == "?" {
		return true
	}
	week := (t.Day()-1)/7 + 1
	wd := int(t.Weekday())
	for item := range strings.SplitSeq(field, ",") {
		if d, k, ok := strings.Cut(item, "#"); ok {
			if d == strconv.Itoa(wd) && k == strconv.Itoa(week) {
				return true
			}
		} else if d, ok := strings.CutSuffix(item, "L"); ok {
			if d == strconv.Itoa(wd) && t.AddDate(0, 0, 7).Month() != t.Month() {
				return true
			}
		} else if plainSet(item, 0, 6)[wd] {
			return true
		}
	}
	return false
}
