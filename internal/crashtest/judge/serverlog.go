package judge

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Excuse is a message of PostgreSQL that may be in its log after what was done,
// and why. The pattern is searched in the message, after its severity.
type Excuse struct {
	Why     string
	Pattern *regexp.Regexp
	In      []Window // when it holds; nil: always
}

func (e Excuse) holds(line, message string) bool {
	if !e.Pattern.MatchString(message) {
		return false
	}
	if e.In == nil {
		return true
	}
	const layout = "2006-01-02 15:04:05.000 MST"
	at, err := time.Parse(layout, line[:min(len(line), len(layout))])
	return err == nil && slices.ContainsFunc(e.In, func(w Window) bool { return w.holds(at, time.Millisecond) })
}

var severe = regexp.MustCompile(`(?:^|\s)(ERROR|FATAL|PANIC):\s+(.*)`)

// ServerLog reads a PostgreSQL log and returns the messages of an error or worse
// that nothing excuses, and how often each excuse was used.
func ServerLog(text string, excuses []Excuse) (faults []string, used map[string]int) {
	used = map[string]int{}
lines:
	for line := range strings.Lines(text) {
		m := severe.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		for _, e := range excuses {
			if e.holds(line, m[2]) {
				used[e.Why]++
				continue lines
			}
		}
		faults = append(faults, strings.TrimSpace(line))
	}
	return faults, used
}
