package schedule

import (
	"fmt"
	"slices"
)

// exclusion is a set of civil days on which nothing fires. A nil exclusion is
// empty.
type exclusion struct {
	days   []int64 // sorted
	months []monthDays
}

type monthDays struct {
	key  int    // year*12 + month
	mask uint32 // bit d = day d is excluded
}

func newExclusion(dates []Date) (*exclusion, error) {
	if len(dates) == 0 {
		return nil, nil
	}
	x := &exclusion{days: make([]int64, 0, len(dates))}
	for _, d := range dates {
		if !d.valid() {
			return nil, &Error{Code: CodeDate, Field: fieldExclude, Value: d.String(), Offset: -1,
				Message: fmt.Sprintf("exclude: %s is not in the calendar", d), Hint: "write a date such as 2026-12-25"}
		}
		x.days = append(x.days, d.serial())
	}
	slices.Sort(x.days)
	x.days = slices.Compact(x.days)
	for _, n := range x.days {
		y, m, dom := dateOf(n)
		key := y*12 + m
		if last := len(x.months) - 1; last < 0 || x.months[last].key != key {
			x.months = append(x.months, monthDays{key: key})
		}
		x.months[len(x.months)-1].mask |= 1 << dom
	}
	return x, nil
}

func (x *exclusion) mask(year, month int) uint32 {
	i, ok := slices.BinarySearchFunc(x.months, year*12+month, func(m monthDays, key int) int { return m.key - key })
	if !ok {
		return 0
	}
	return x.months[i].mask
}

func (x *exclusion) has(civilDay int64) bool {
	if x == nil {
		return false
	}
	_, ok := slices.BinarySearch(x.days, civilDay)
	return ok
}
