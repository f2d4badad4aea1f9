package judge

import (
	"regexp"
	"strings"
)

// Excuse is a message of PostgreSQL that may be in its log after what was done,
// and why. The pattern is searched in the message, after its severity.
type Excuse struct {
	Why     string
	Pattern *regexp.Regexp
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
			if e.Pattern.MatchString(m[2]) {
				used[e.Why]++
				continue lines
			}
		}
		faults = append(faults, strings.TrimSpace(line))
	}
	return faults, used
}
