package domain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daybookhq/daybook/domain/schedule"
)

// Limits of a definition.
const (
	MaxNameLength   = 64        // bytes of a name, a queue, a kind
	MaxArgsBytes    = 256 << 10 // JSON of the arguments
	MaxTargetBytes  = 256 << 10 // JSON of the target
	MaxAttemptLimit = 1_000_000
	MaxCatchupLimit = 100_000
	MaxExcluded     = 10_000 // dates on which nothing fires
	MaxTags         = 32
	MaxTagLength    = 64 // bytes
)

// FieldError is one thing that is wrong with a definition.
type FieldError struct {
	Field   string // as the jobs file spells it: "retry.max", "schedule[1]"
	Value   string // as it was given, shortened; empty where showing it does not help
	Code    string // of a refused schedule: E_RANGE and so on; otherwise empty
	Message string // what is wrong
	Hint    string // what would be right; may be empty
}

func (e FieldError) Error() string {
	var b strings.Builder
	b.WriteString(e.Field + ": ")
	if e.Value != "" {
		b.WriteString(strconv.Quote(e.Value) + ": ")
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// ValidName reports whether a job can have the name: up to 64 lower-case
// letters, digits, hyphens and underscores, the first of them a letter or digit.
func ValidName(s string) bool { return ValidToken(s) && s[0] != '-' && s[0] != '_' }

// ValidToken reports whether a queue or kind can have the name: 1 to 64
// lower-case letters, digits, hyphens and underscores. It becomes part of
// subjects and of names of consumers.
func ValidToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return 0 < len(s) && len(s) <= MaxNameLength
}

// Validate returns everything that is wrong with a definition whose defaults are
// filled in; none if it may be recorded. What a built-in executor is to do is
// its own to check.
func (s JobSpec) Validate() []FieldError {
	v := validation{}
	if !ValidName(s.Name) {
		v.add("name", s.Name, "is no name", "use a-z, 0-9, - and _, at most 64, beginning with a letter or digit")
	}
	v.token("queue", s.Queue)
	v.token("kind", s.Kind)
	v.schedule(s)
	v.target(s)
	v.json("args", s.Args, MaxArgsBytes)
	v.notNegative("timeout", s.Timeout, "0s is no timeout")
	v.retry(s.Retry)
	oneOf(&v, "overlap", s.Overlap, OverlapSkip, OverlapQueue, OverlapReplace, OverlapAllow)
	oneOf(&v, "misfire", s.Misfire, MisfireLatest, MisfireSkip, MisfireAll)
	v.notNegative("catchup_window", s.CatchupWindow, "0s is no limit")
	v.between("max_catchup", s.MaxCatchup, 0, MaxCatchupLimit, "0 is no limit")
	v.notNegative("jitter", s.Jitter, "")
	v.exclude(s)
	if c := s.Concurrency; c != nil {
		v.between("concurrency.limit", c.Limit, 1, math.MaxInt32, "it is how many runs may be in hand at once")
		if len(c.Key) > MaxNameLength || c.Key != storable(c.Key, MaxNameLength) {
			v.add("concurrency.key", c.Key, "is no name of an argument", fmt.Sprintf("use up to %d bytes of text", MaxNameLength))
		}
	}
	v.policies(s)
	v.between("priority", s.Priority, 0, Priorities-1, "0 is first, 9 is last")
	v.tags(s.Tags)
	if s.Source != storable(s.Source, math.MaxInt) {
		v.add("source", s.Source, "holds NUL or is not valid UTF-8", "")
	}
	return v.errs
}

type validation struct{ errs []FieldError }

func (v *validation) add(field, value, message, hint string) {
	v.errs = append(v.errs, FieldError{Field: field, Value: storable(value, 80), Message: message, Hint: hint})
}

func (v *validation) token(field, value string) {
	if !ValidToken(value) {
		v.add(field, value, "is no name of a "+field, "use a-z, 0-9, - and _, at most 64")
	}
}

func (v *validation) notNegative(field string, d Duration, hint string) {
	if d < 0 {
		v.add(field, d.String(), "is negative", hint)
	}
}

func (v *validation) between(field string, n, low, high int, hint string) {
	if n < low || n > high {
		v.add(field, strconv.Itoa(n), fmt.Sprintf("is out of range %d-%d", low, high), hint)
	}
}

func oneOf[S ~string](v *validation, field string, value S, allowed ...S) {
	if !slices.Contains(allowed, value) {
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		v.add(field, string(value), "is no policy", "use "+strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	}
}

func (v *validation) json(field string, raw []byte, limit int) {
	if len(raw) > limit {
		v.add(field, "", fmt.Sprintf("is %d bytes of JSON, at most %d are stored", len(raw), limit), "pass a reference to large data")
	} else if err := CheckStorable(raw); err != nil {
		v.add(field, "", err.Error(), "")
	}
}

func (v *validation) target(s JobSpec) {
	builtIn := s.Kind == KindExec || s.Kind == KindHTTP
	switch {
	case builtIn && len(s.Target) == 0:
		v.add(s.Kind, "", "is missing: the kind "+s.Kind+" needs to be told what to do", "")
	case !builtIn && len(s.Target) > 0:
		v.add("kind", s.Kind, "has a target, which only exec and http take", "pass args instead")
	default:
		v.json(s.Kind, s.Target, MaxTargetBytes)
	}
}

func (v *validation) retry(p RetryPolicy) {
	v.between("retry.max_attempts", p.MaxAttempts, 1, MaxAttemptLimit, "1 is no retry")
	v.notNegative("retry.initial", p.Initial, "")
	v.notNegative("retry.max", p.Max, "")
	if p.Initial >= 0 && p.Max >= 0 && p.Max < p.Initial {
		v.add("retry.max", p.Max.String(), "is less than initial, which is "+p.Initial.String(), "")
	}
	if m := p.Multiplier; !(m >= 1 && m <= math.MaxFloat32) { // also refuses what is no number
		v.add("retry.multiplier", strconv.FormatFloat(m, 'g', -1, 64), "is not a number from 1", "1 waits equally long each time, 2 doubles")
	}
}

func (v *validation) tags(tags []string) {
	if len(tags) > MaxTags {
		v.add("tags", "", fmt.Sprintf("are %d, at most %d are accepted", len(tags), MaxTags), "")
		return
	}
	for i, tag := range tags {
		field := fmt.Sprintf("tags[%d]", i)
		switch {
		case tag == "" || len(tag) > MaxTagLength:
			v.add(field, tag, fmt.Sprintf("is %d bytes long", len(tag)), fmt.Sprintf("use 1 to %d bytes", MaxTagLength))
		case !utf8.ValidString(tag) || strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsGraphic(r) }):
			v.add(field, tag, "holds characters that cannot be shown", "")
		case slices.Contains(tags[:i], tag):
			v.add(field, tag, "is given twice", "")
		}
	}
}

func (v *validation) exclude(s JobSpec) {
	switch {
	case len(s.Exclude) > 0 && len(s.Schedules) == 0:
		v.add("exclude", "", "leaves out dates of a schedule, and there is none", "")
	case len(s.Exclude) > MaxExcluded:
		v.add("exclude", "", fmt.Sprintf("are %d dates, at most %d are accepted", len(s.Exclude), MaxExcluded), "")
	default:
		for i, day := range s.Exclude {
			if _, err := schedule.ParseDate(day); err != nil {
				v.errs = append(v.errs, FieldError{Field: fmt.Sprintf("exclude[%d]", i), Value: storable(day, 80), Code: string(schedule.CodeDate),
					Message: "is no date", Hint: "write it as 2026-12-25"})
			}
		}
	}
	for i, name := range s.Calendars {
		if !ValidName(name) {
			v.add(fmt.Sprintf("calendars[%d]", i), name, "is no name of a calendar", "use a-z, 0-9, - and _, at most 64")
		}
	}
}

// schedule reports every expression that is refused, not only the first.
func (v *validation) schedule(s JobSpec) {
	var o schedule.Options
	if err := schedule.CheckZone(s.TimeZone); err != nil {
		v.refused("time_zone", s.TimeZone, err)
	} else {
		o.Zone = s.TimeZone
	}
	v.instant("start_at", s.StartAt, len(s.Schedules) > 0)
	v.instant("end_at", s.EndAt, len(s.Schedules) > 0)
	if s.StartAt != nil && s.EndAt != nil && !s.StartAt.Before(*s.EndAt) {
		v.errs = append(v.errs, FieldError{Field: "end_at", Value: s.EndAt.Format(time.RFC3339Nano), Code: string(schedule.CodeBounds),
			Message: "is not after start_at, which is " + s.StartAt.Format(time.RFC3339Nano)})
	}
	if n := len(s.Schedules); n > schedule.MaxExpressions {
		v.add("schedule", "", fmt.Sprintf("has %d expressions, at most %d are accepted", n, schedule.MaxExpressions), "")
		return
	}
	for i, expr := range s.Schedules {
		field := "schedule"
		if len(s.Schedules) > 1 {
			field = fmt.Sprintf("schedule[%d]", i)
		}
		if _, err := schedule.Parse(expr, o); err != nil {
			v.refused(field, expr, err)
		}
	}
}

func (v *validation) instant(field string, t *time.Time, scheduled bool) {
	if t == nil {
		return
	}
	value := t.Format(time.RFC3339Nano)
	switch {
	case !scheduled:
		v.add(field, value, "bounds a schedule, and there is none", "")
	case t.Nanosecond()%1000 != 0:
		v.add(field, value, "is finer than a microsecond", "")
	case t.UTC().Year() < 1 || t.UTC().Year() > 9999:
		v.add(field, value, "is outside the years 1 to 9999", "")
	}
}

func (v *validation) refused(field, value string, err error) {
	var e *schedule.Error
	if !errors.As(err, &e) {
		v.add(field, value, err.Error(), "")
		return
	}
	v.errs = append(v.errs, FieldError{Field: field, Value: storable(value, 80), Code: string(e.Code), Message: e.Message, Hint: e.Hint})
}
