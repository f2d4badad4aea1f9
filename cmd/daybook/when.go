package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// parseWhen reads an instant as people give it: RFC 3339, a date or a date and
// time of this machine's zone, "now", or a duration such as 90m or 7d before or
// after now, as the sign says.
func (a *app) parseWhen(flag, s string, now time.Time, sign int) (time.Time, error) {
	zone := a.zone
	if zone == nil {
		zone = time.Local
	}
	s = strings.TrimSpace(s)
	if s == "now" {
		return now, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	if d, ok := parseSpan(s); ok {
		return now.Add(time.Duration(sign) * d), nil
	}
	span := "15m or 7d, meaning that long ago"
	if sign > 0 {
		span = "15m, meaning that long from now"
	}
	return time.Time{}, usage("--%s %q: want an instant such as 2026-03-08T07:30:00Z, a local date or time such as 2026-03-08 or '2026-03-08 07:30', or %s", flag, plain(s), span)
}

var days = regexp.MustCompile(`^(\d{1,5})([dw])(.*)$`)

// parseSpan is time.ParseDuration that knows days and weeks.
func parseSpan(s string) (time.Duration, bool) {
	s = strings.TrimPrefix(s, "+")
	var d time.Duration
	if m := days.FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[1]) // five digits
		if m[2] == "w" {
			n *= 7
		}
		if d, s = time.Duration(n)*24*time.Hour, m[3]; s == "" {
			return d, true
		}
	}
	rest, err := time.ParseDuration(s)
	return d + rest, err == nil && rest >= 0
}

// optionalWhen is parseWhen for a flag that may be absent.
func (a *app) optionalWhen(flag, s string, sign int) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return a.parseWhen(flag, s, time.Now(), sign)
}
