package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
)

const (
	defaultShell = "/bin/sh"
	shellPATH    = "/usr/bin:/bin"
	argvPATH     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

	// maxArgsVariable keeps DAYBOOK_ARGS well below maxArgument, above which nothing would start at all.
	maxArgsVariable = 64 << 10
)

// inherited are the only variables of the worker that a command sees unasked: they say how this machine writes
// text and time, and hold no secrets.
var inherited = []string{"LANG", "TZ"}

type environment map[string]string

func newEnvironment(t Target, o Options, who identity) (environment, *Error) {
	env := environment{
		"PATH":    argvPATH,
		"HOME":    who.home,
		"LOGNAME": who.name,
		"USER":    who.name,
	}
	if t.Shell != "" {
		env["PATH"], env["SHELL"] = shellPATH, t.shellPath()
	}
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	for name, v := range t.Env {
		if v.FromEnv == "" {
			env[name] = v.Value
			continue
		}
		value, ok := os.LookupEnv(v.FromEnv)
		if !ok {
			// Another worker may have it, or this one after its next restart: not fatal.
			return nil, &Error{Type: TypeEnvironment, Verdict: Retry, Message: fmt.Sprintf(
				"variable %s comes from %s, which is not set in the environment of this worker", name, v.FromEnv)}
		}
		if len(name)+1+len(value) > maxArgument {
			return nil, &Error{Type: TypeEnvironment, Verdict: Fatal, Message: fmt.Sprintf(
				"variable %s comes from %s, whose %d bytes are more than the system passes", name, v.FromEnv, len(value))}
		}
		env[name] = value
	}
	return env, env.describe(t, o)
}

func (env environment) describe(t Target, o Options) *Error {
	env["DAYBOOK_RUN_ID"] = o.RunID
	env["DAYBOOK_JOB"] = o.Job
	env["DAYBOOK_ATTEMPT"] = strconv.Itoa(o.Attempt)
	if !o.ScheduledAt.IsZero() {
		env["DAYBOOK_SCHEDULED_AT"] = o.ScheduledAt.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	}
	args := arguments(o.Args)
	switch {
	case args == nil:
		env["DAYBOOK_ARGS"] = "null"
	case len(args) <= maxArgsVariable:
		env["DAYBOOK_ARGS"] = string(args)
	case t.Stdin != "":
		return &Error{Type: TypeInvalidTarget, Verdict: Fatal, Message: fmt.Sprintf(
			"%d bytes of arguments cannot reach the command: they are too many for DAYBOOK_ARGS (%d), and standard input is taken by the job's own text",
			len(args), maxArgsVariable)}
	}
	return nil
}

// arguments is nil if the run has none.
func arguments(raw json.RawMessage) []byte {
	args := bytes.TrimSpace(raw)
	if len(args) == 0 || string(args) == "null" {
		return nil
	}
	return args
}

// input is what the command reads from standard input; nil for nothing.
func input(t Target, o Options) []byte {
	if t.Stdin != "" {
		return []byte(t.Stdin)
	}
	return arguments(o.Args)
}

func (env environment) list() []string {
	l := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		l = append(l, name+"="+env[name])
	}
	return l
}

func (t Target) shellPath() string {
	if t.ShellPath == "" {
		return defaultShell
	}
	return t.ShellPath
}
