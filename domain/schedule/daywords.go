package schedule

import (
	"fmt"
)

var ordinals = [6]string{"", "first", "second", "third", "fourth", "fifth"}

func (s *domSet) full() bool { return s.days == everyDom }
func (s *dowSet) full() bool { return s.days == everyDow }

// plain reports whether the field names weekdays only, without # or L.
func (s *dowSet) plain() bool { return s.nth == [6]uint32{} && s.last == 0 }

// items writes the days of the month: day 1, 15 or the last day.
func (s *domSet) items() string {
	var out []string
	if days := members(uint64(s.days)); len(days) > 0 {
		word := "day "
		if n := len(days); n >= 3 && (progression(days) == 1 || n > 4 && progression(days) > 1) {
			word = "days "
		}
		out = append(out, word+numbers(days, "or"))
	}
	for _, d := range members(uint64(s.nearest)) {
		out = append(out, fmt.Sprintf("the weekday (Mon-Fri) nearest day %d", d))
	}
	for _, n := range members(uint64(s.last)) {
		switch n {
		case 0:
			out = append(out, "the last day")
		case 1:
			out = append(out, "the day before the last day")
		default:
			out = append(out, fmt.Sprintf("the day %d days before the last day", n))
		}
	}
	if s.lastWeekday {
		out = append(out, "the last weekday (Mon-Fri)")
	}
	return list(out, "or")
}

// weekdays lists names from Monday on, or a run as "Friday to Monday".
func weekdays(set uint32, before string) (names []string, run string) {
	var order []int
	for i := range 7 {
		if d := (i + 1) % 7; set>>d&1 != 0 {
			order = append(order, d)
			names = append(names, before+dayWords[d])
		}
	}
	if len(order) < 3 {
		return names, ""
	}
	if first, last, ok := ring(members(uint64(set)), 7); ok {
		run = dayWords[first] + " to " + dayWords[last]
	}
	return names, run
}

// head names plain weekdays as the subject: Monday to Friday, Every Friday.
func (s *dowSet) head() string {
	names, run := weekdays(s.days, "")
	if run != "" {
		return run
	}
	return "Every " + list(names, "and")
}

// items writes the weekdays as a choice, each plain one after the article:
// any Friday, the first Monday.
func (s *dowSet) items(article string) string {
	var out []string
	if s.days != 0 {
		names, run := weekdays(s.days, article)
		if run != "" {
			if article == "any " {
				run = "any day from " + run
			}
			names = []string{run}
		}
		out = append(out, names...)
	}
	for k := 1; k <= 5; k++ {
		names, _ := weekdays(s.nth[k], "the "+ordinals[k]+" ")
		out = append(out, names...)
	}
	names, _ := weekdays(s.last, "the last ")
	return list(append(out, names...), "or")
}

// monthWords names the months of the field; one reports a single month.
func (c *cron) monthWords() (text string, one bool) {
	v := members(uint64(c.month))
	if len(v) == 1 {
		return monthWords[v[0]], true
	}
	zero := make([]int, len(v))
	for i := range v {
		zero[i] = v[i] - 1
	}
	if first, last, ok := ring(zero, 12); ok && len(v) >= 3 {
		return monthWords[first+1] + " to " + monthWords[last+1], false
	}
	var names []string
	for _, m := range v {
		names = append(names, monthWords[m])
	}
	return list(names, "and"), false
}
