package crontab

import (
	"maps"
	"regexp"
	"strings"

	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/internal/executor"
)

// assignment reads NAME = value. Like cron it does not ask whether the name is a good one: what is not an assignment is
// an entry, and an entry never has an = behind its first word.
func assignment(s string) (name, value string, ok bool) {
	name, rest, ok := quoted(s)
	if !ok {
		i := strings.IndexAny(s, "= \t")
		if i <= 0 {
			return "", "", false
		}
		name, rest = s[:i], s[i:]
	}
	rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t"), "=")
	if !ok || name == "" || strings.ContainsRune(name, '=') {
		return "", "", false
	}
	rest = strings.Trim(rest, " \t")
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		return name, rest, true
	}
	value, rest, ok = quoted(rest)
	return name, value, ok && rest == ""
}

// quoted splits 'x'y and "x"y into x and y. There are no escapes inside.
func quoted(s string) (inside, rest string, ok bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return "", "", false
	}
	return strings.Cut(s[1:], s[:1])
}

var assignmentLike = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*[ \t]*=[ \t]*(.)`)

// brokenAssignment explains a line that was meant as an assignment and is none, which cron would try to read as a
// schedule. It is empty for other lines.
func brokenAssignment(s string) string {
	m := assignmentLike.FindStringSubmatch(s)
	if m == nil {
		return ""
	}
	quote := m[1]
	if strings.Count(s, quote) < 2 {
		return "the value has no closing " + quote
	}
	return "text after the closing " + quote + "; there are no comments at the end of a line, and a " + quote + " cannot stand inside such a value"
}

// variables is the environment in effect. Entries share a snapshot of it until it changes.
type variables struct {
	now    map[string]string
	shared map[string]string // what the entries since the last change have; nil after a change
	copied int
}

func (v *variables) set(name, value string) bool {
	if v.now == nil {
		v.now = map[string]string{}
	}
	if _, known := v.now[name]; !known && len(v.now) >= MaxVariables {
		return false
	}
	v.now[name], v.shared = value, nil
	return true
}

func (v *variables) snapshot() map[string]string {
	if v.shared == nil && len(v.now) > 0 {
		v.shared = maps.Clone(v.now)
		v.copied += len(v.now)
	}
	return v.shared
}

var reference = regexp.MustCompile(`\$[A-Za-z_{]`)

func (p *parser) assign(l line, name, value string) {
	switch {
	case name == "LOGNAME" || name == "USER":
		p.problem(l, Warning, "%s always names the user of the command; the assignment has no effect", name)
		return
	case !p.allowed(l, name, value):
		return
	case !p.env.set(name, value):
		p.problem(l, Error, "more than %d variables", MaxVariables)
		return
	}
	switch name {
	case "MAILTO":
		if value != "" {
			p.problem(l, Warning, "no mail is sent: what a run prints is kept with it ('daybook run output'), and 'daybook run list --state failed' lists what went wrong")
		}
	case "CRON_TZ":
		p.setZone(l, value)
	case "TZ":
		p.problem(l, Warning, "TZ is given to the commands; the schedules follow CRON_TZ")
	case "RANDOM_DELAY":
		p.problem(l, Warning, "commands start on time, without a random delay; a jobs file has jitter for that")
	default:
		if reference.MatchString(value) || strings.HasPrefix(value, "~") {
			p.problem(l, Warning, "nothing is expanded here, as in cron: %s holds the characters as they stand", name)
		}
	}
}

// allowed judges a variable once, for all entries below it.
func (p *parser) allowed(l line, name, value string) bool {
	err := executor.Target{Shell: ":", Env: map[string]executor.EnvValue{name: executor.Literal(value)}}.Validate()
	if err != nil {
		p.problem(l, Error, "%v", inCronsWords(err))
	}
	return err == nil
}

func (p *parser) setZone(l line, zone string) {
	if zone == "" { // as cron: back to the machine's
		p.zone, p.zoneSet = p.opt.Zone, 0
		return
	}
	p.zone, p.zoneSet = zone, l.number
	if _, err := schedule.Parse("* * * * *", schedule.Options{Zone: zone}); err != nil {
		p.problem(l, Error, "CRON_TZ: %v; no schedule below can be honoured", err)
	}
}
