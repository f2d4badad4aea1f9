package schedule

import (
	"fmt"
	"math/bits"
	"strings"
)

// fires reports whether any date matches in any year.
//
// The Gregorian calendar repeats after 400 years, which are a whole number of
// weeks. Within them a year of either length begins on every weekday, so each
// month occurs in every shape of (length, first weekday) that its length
// allows, and trying those shapes is a proof.
func (c *cron) fires() bool {
	for month := 1; month <= 12; month++ {
		if c.month>>month&1 == 0 {
			continue
		}
		for first := range 7 {
			if c.shape(monthLength(true, month), first) != 0 || month == 2 && c.shape(28, first) != 0 {
				return true
			}
		}
	}
	return false
}

func (c *cron) checkFires(words []word) error {
	if c.fires() {
		return nil
	}
	e := domSpec.refuse(CodeNever, words[2], "", "")
	e.Field = fieldSchedule
	e.Message = "never fires: no date matches both day fields"
	if day := c.smallestDay(); day > 0 && c.dowFires() {
		e.Field = domSpec.name
		e.Message = fmt.Sprintf("never fires: %s no day %d", c.monthsHave(), day)
		e.Hint = "use L for the last day of the month"
	} else if c.dom.days&^(1<<8-1) == c.dom.days && c.dow.nth[1] != 0 && c.dow.days == 0 {
		e.Hint = "the first weekday of a month is never after the 7th"
	}
	return e
}

// smallestDay returns the first day named by the day-of-month field if it lies
// after the end of all months named, else 0.
func (c *cron) smallestDay() int {
	longest := 0
	for month := 1; month <= 12; month++ {
		if c.month>>month&1 != 0 {
			longest = max(longest, monthLength(true, month))
		}
	}
	days := c.dom.days | c.dom.nearest
	if c.dom.last != 0 || c.dom.lastWeekday || days == 0 {
		return 0
	}
	if d := bits.TrailingZeros32(days); d > longest {
		return d
	}
	return 0
}

// dowFires reports whether the day-of-week field alone would fire.
func (c *cron) dowFires() bool {
	alone := *c
	alone.and = true
	alone.dom = domSet{days: everyDom}
	return alone.fires()
}

func (c *cron) monthsHave() string {
	var names []string
	for month := 1; month <= 12; month++ {
		if c.month>>month&1 != 0 {
			names = append(names, monthWords[month])
		}
	}
	if len(names) == 1 {
		return names[0] + " has"
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " have"
}
