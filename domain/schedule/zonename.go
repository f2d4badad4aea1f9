package schedule

import (
	"fmt"
	"strings"
	"time"
)

// areas are the first parts of zone names. What else the time package would
// load ("right/…" with leap seconds, "posixrules", "Factory", "Local", or a
// path) is refused.
var areas = map[string]bool{
	"Africa": true, "America": true, "Antarctica": true, "Arctic": true, "Asia": true,
	"Atlantic": true, "Australia": true, "Brazil": true, "Canada": true, "Chile": true,
	"Etc": true, "Europe": true, "Indian": true, "Mexico": true, "Pacific": true, "US": true,
}

// single are the zone names without an area.
var single = func() map[string]bool {
	const names = "UTC GMT CET CST6CDT Cuba EET EST EST5EDT Egypt Eire GB GB-Eire GMT+0 GMT-0 GMT0 " +
		"Greenwich HST Hongkong Iceland Iran Israel Jamaica Japan Kwajalein Libya MET MST MST7MDT " +
		"NZ NZ-CHAT Navajo PRC PST8PDT Poland Portugal ROC ROK Singapore Turkey UCT Universal W-SU WET Zulu"
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		m[name] = true
	}
	return m
}()

// abbreviations are common names for offsets, with a zone that uses each.
var abbreviations = map[string]string{
	"EDT": "America/New_York", "CST": "America/Chicago", "CDT": "America/Chicago", "MDT": "America/Denver",
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "BST": "Europe/London", "CEST": "Europe/Berlin",
	"EEST": "Europe/Helsinki", "WEST": "Europe/Lisbon", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
	"KST": "Asia/Seoul", "AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "NZST": "Pacific/Auckland",
	"NZDT": "Pacific/Auckland", "BRT": "America/Sao_Paulo", "MSK": "Europe/Moscow", "SGT": "Asia/Singapore",
}

// CheckZone reports whether a name is one that Options.Zone accepts. The error
// is an *Error with code E_ZONE.
func CheckZone(name string) error {
	_, err := loadZone(name, nil)
	return err
}

func zoneError(name, hint string) *Error {
	return &Error{Code: CodeZone, Field: fieldZone, Value: shorten(name), Offset: -1,
		Message: fmt.Sprintf("unknown time zone %q", shorten(name)), Hint: hint}
}

const zoneHint = "use an IANA name such as America/New_York"

// zoneName reports whether a name has the form of a zone name, before anything
// is looked for.
func zoneName(name string) bool {
	area, rest, ok := strings.Cut(name, "/")
	return single[name] || ok && areas[area] && len(name) <= 64 && plainPath(rest)
}

func plainPath(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" {
			return false
		}
		for i := range len(part) {
			c := part[i]
			if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '+') {
				return false
			}
		}
	}
	return true
}

// unknownZone makes the error for a name, with a suggestion where one is found.
func unknownZone(name string, load func(string) (*time.Location, error)) error {
	exists := func(n string) bool {
		if !zoneName(n) {
			return false
		}
		loc, err := load(n)
		return err == nil && loc != nil
	}
	switch upper := strings.ToUpper(name); {
	case len(name) > 64 || name == "":
		return zoneError(name, zoneHint)
	case name == "Local" || name == "localtime":
		return zoneError(name, "the machine's own zone differs between machines; "+zoneHint)
	case abbreviations[upper] != "":
		return zoneError(name, "an abbreviation fits several zones; did you mean "+abbreviations[upper]+"?")
	case name[0] == '+' || name[0] == '-' || strings.HasPrefix(upper, "UTC") && len(name) > 3 || strings.HasPrefix(upper, "GMT") && len(name) > 3:
		return zoneError(name, "use an IANA name such as America/New_York; Etc/GMT-5 is fixed at +05:00")
	case single[upper]:
		return zoneError(name, "did you mean "+upper+"?")
	}
	if n := recase(name); n != name && exists(n) {
		return zoneError(name, "did you mean "+n+"?")
	}
	if !strings.Contains(name, "/") {
		city := recase(name)
		for _, area := range []string{"Europe", "America", "Asia", "Africa", "Australia", "Pacific", "Atlantic", "Indian"} {
			if n := area + "/" + city; exists(n) {
				return zoneError(name, "did you mean "+n+"?")
			}
		}
	}
	return zoneError(name, zoneHint)
}

// recase writes a name the way most zone names are written: New_York.
func recase(name string) string {
	b := []byte(strings.ReplaceAll(strings.TrimSpace(name), " ", "_"))
	start := true
	for i, c := range b {
		switch {
		case 'a' <= c && c <= 'z' && start:
			b[i] = c - 0x20
		case 'A' <= c && c <= 'Z' && !start:
			b[i] = c + 0x20
		}
		start = c == '/' || c == '_' || c == '-'
	}
	return string(b)
}
