package schedule

import (
	"errors"
	"fmt"
	"time"
)

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// Civil labels are seconds since 1970-01-01 00:00 as a clock shows them,
// counted as if that clock were UTC. A civil day is a label divided by 86400.

// floorDiv divides rounding towards negative infinity; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv divides rounding towards positive infinity; b is positive.
func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// dayOf returns the civil day of a date. Years are counted from March so that
// a leap day is the last of its year and month lengths need no table.
func dayOf(year, month, dom int) int64 {
	y := int64(year)
	m := int64(month) - 3
	if m < 0 {
		m += 12
		y--
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*m+2)/5 + int64(dom) - 1
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

// dateOf is the inverse of dayOf.
func dateOf(d int64) (year, month, dom int) {
	d += 719468
	era := floorDiv(d, 146097)
	doe := d - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	dom = int(doy - (153*mp+2)/5 + 1)
	month = int(mp) + 3
	year = int(yoe + era*400)
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, dom
}

// weekdayOf returns 0 for Sunday.
func weekdayOf(d int64) int { return int(d + 4 - 7*floorDiv(d+4, 7)) }

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func monthLength(leapYear bool, month int) int {
	switch month {
	case 2:
		if leapYear {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// formatLabel writes a civil time as 2026-03-08T02:30, with seconds and a
// fraction only where there are any.
func formatLabel(label int64, nsec int32) string {
	d := floorDiv(label, day)
	y, m, dom := dateOf(d)
	sec := int(label - d*day)
	var buf [32]byte
	b := appendDate(buf[:0], y, m, dom)
	b = append(b, 'T')
	b = appendClock(b, sec, nsec)
	return string(b)
}

// appendClock writes a second of the day as 02:30, 02:30:15 or 02:30:15.25.
func appendClock(b []byte, sec int, nsec int32) []byte {
	b = append2(b, sec/hour)
	b = append2(append(b, ':'), sec/minute%60)
	if sec%minute == 0 && nsec == 0 {
		return b
	}
	b = append2(append(b, ':'), sec%minute)
	if nsec == 0 {
		return b
	}
	frac := fmt.Appendf(nil, ".%09d", nsec)
	for frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	return append(b, frac...)
}

func appendDate(b []byte, y, m, d int) []byte {
	b = append2(append2(b, y/100), y%100)
	b = append2(append(b, '-'), m)
	return append2(append(b, '-'), d)
}

func append2(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// Date is a civil date, without a time zone.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// ParseDate reads a date such as 2026-12-25. The error is an *Error with code
// E_DATE.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		message := fmt.Sprintf("exclude: %q is not a date", shorten(s))
		if perr := (*time.ParseError)(nil); errors.As(err, &perr) && perr.Message == ": day out of range" {
			message = fmt.Sprintf("exclude: %q is not in the calendar", shorten(s))
		}
		return Date{}, &Error{Code: CodeDate, Field: fieldExclude, Value: shorten(s), Offset: -1,
			Message: message, Hint: "write it as 2026-12-25"}
	}
	return Date{t.Year(), t.Month(), t.Day()}, nil
}

// String returns the date as 2026-12-25.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day) }

// MarshalText implements [encoding.TextMarshaler].
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Date) UnmarshalText(text []byte) error {
	v, err := ParseDate(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// valid reports whether the date exists, in years 1 to 9999.
func (d Date) valid() bool {
	return d.Year >= 1 && d.Year <= 9999 && d.Month >= 1 && d.Month <= 12 &&
		d.Day >= 1 && d.Day <= monthLength(leap(d.Year), int(d.Month))
}

func (d Date) serial() int64 { return dayOf(d.Year, int(d.Month), d.Day) }
