package schedule

import (
	"fmt"
	"strings"
)

// Code names one reason why a schedule is refused. Codes are stable; messages
// are for people and may change.
type Code string

// The codes.
const (
	CodeEmpty     Code = "E_EMPTY"     // nothing was written
	CodeLength    Code = "E_LENGTH"    // longer than MaxLength bytes, or more than MaxExpressions
	CodeFields    Code = "E_FIELDS"    // not five fields
	CodeSeconds   Code = "E_SECONDS"   // six fields: a seconds or year field
	CodeRange     Code = "E_RANGE"     // a number outside its field
	CodeValue     Code = "E_VALUE"     // not a value of its field
	CodeStep      Code = "E_STEP"      // a step that is no number or too large
	CodeBackwards Code = "E_BACKWARDS" // a minute or day range that ends before it starts
	CodeNever     Code = "E_NEVER"     // no date matches in any year
	CodeMacro     Code = "E_MACRO"     // an unknown @word, or text after one
	CodeInterval  Code = "E_INTERVAL"  // a bad @every duration
	CodeAt        Code = "E_AT"        // a bad @at instant
	CodeZone      Code = "E_ZONE"      // not an IANA time zone
	CodeZonePre   Code = "E_TZPREFIX"  // TZ= or CRON_TZ= inside the expression
	CodeBounds    Code = "E_BOUNDS"    // end_at is not after start_at
	CodeDate      Code = "E_DATE"      // an excluded date that is no date
)

// Names of the parts of a definition that an Error can point at.
const (
	fieldSchedule = "schedule"
	fieldZone     = "time_zone"
	fieldEnd      = "end_at"
	fieldExclude  = "exclude"
)

// Error says why a schedule was refused. Its JSON form has the keys code,
// field, value, message and hint; an Error of a Set with several expressions
// also has expression.
type Error struct {
	Code    Code   `json:"code"`
	Field   string `json:"field"`   // "minute" … "day-of-week", "schedule", "time_zone", "end_at", "exclude"
	Value   string `json:"value"`   // the refused text, shortened when long
	Message string `json:"message"` // what is wrong
	Hint    string `json:"hint"`    // what would be right; may be empty

	// Expression is the refused expression when ParseSet was given several.
	Expression string `json:"expression,omitempty"`
	// Index is the position of the refused expression in the list, from 0.
	Index int `json:"-"`
	// Offset is the byte of the expression at which Value starts, or -1 when
	// the error is about something else.
	Offset int `json:"-"`
}

// Error returns the message, with the hint in parentheses.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Expression != "" {
		fmt.Fprintf(&b, "expression %d (%s): ", e.Index+1, e.Expression)
	}
	b.WriteString(e.Message)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// shorten keeps an error readable and printable whatever the input was.
func shorten(s string) string {
	const limit = 64
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
