package jobsfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/domain"
)

// refused parses what must be refused and returns the lines of the error.
func refused(t testing.TB, src string) []string {
	t.Helper()
	f, err := Parse("f", []byte(src), Options{})
	var all *Errors
	if !errors.As(err, &all) || f != nil || len(all.Problems) == 0 {
		t.Errorf("%q: %+v, %v, want refused", clip(src), f, err)
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

func expect(t testing.TB, src string, want ...string) {
	t.Helper()
	got := refused(t, src)
	if len(got) != len(want) {
		t.Errorf("%q:\n%s\nwant %d problems:\n%s", clip(src), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q:\n%s\nwant\n%s", clip(src), got[i], want[i])
		}
	}
}

// TestRefusedFields puts one line into a job that is otherwise right; it becomes
// line 5.
func TestRefusedFields(t *testing.T) {
	const job = "jobs:\n  - name: a\n    schedule: '@daily'\n    kind: mine\n    "
	for _, c := range []struct{ line, want string }{
		{`tags: [a, b`, `f:5: the file is not valid YAML: sequence end token ']' not found`},
		{`nmae: b`, `f:5: jobs[0].nmae: is no field of a job (did you mean name?)`},
		{`time-zone: UTC`, `f:5: jobs[0].time-zone: is no field of a job (did you mean time_zone?)`},
		{`tz: UTC`, `f:5: jobs[0].tz: is no field of a job (did you mean time_zone?)`},
		{`cron: '@daily'`, `f:5: jobs[0].cron: is no field of a job (did you mean schedule?)`},
		{`command: ls`, `f:5: jobs[0].command: is no field of a job (did you mean exec?)`},
		{`Timeout: 5s`, `f:5: jobs[0].Timeout: is no field of a job (did you mean timeout?)`},
		{`colour: red`, `f:5: jobs[0].colour: is no field of a job (the fields are ` + strings.Join(jobFields, ", ") + `)`},
		{`"odd key": 1`, `f:5: jobs[0]."odd key": is no field of a job (the fields are ` + strings.Join(jobFields, ", ") + `)`},
		{`7: x`, `f:5: "7": a key must be text (write it in quotes)`},
		{`queue: a` + "\n    " + `queue: b`, `f:6: jobs[0].queue: is given twice, first on line 5`},
		{`queue:`, `f:5: jobs[0].queue: is empty (give a value or remove it)`},
		{`queue: ""`, `f:5: jobs[0].queue: is no name of a queue (use a-z, 0-9, - and _, at most 64)`},
		{`queue: Mail`, `f:5: jobs[0].queue: "Mail": is no name of a queue (use a-z, 0-9, - and _, at most 64)`},
		{`queue: 5`, `f:5: jobs[0].queue: "5": is a number (write it in quotes: "5")`},
		{`queue: true`, `f:5: jobs[0].queue: "true": is true or false (write it in quotes: "true")`},
		{`queue: [a]`, `f:5: jobs[0].queue: is a list (want text)`},
		{`queue: !!str a`, `f:5: "!!str": tags are not understood (write text in quotes, and numbers without)`},
		{`time_zone: Mars/Base`, `f:5: jobs[0].time_zone: "Mars/Base": unknown time zone "Mars/Base" (use an IANA name such as America/New_York)`},
		{`args: {a: .inf}`, `f:5: jobs[0].args.a: ".inf": is a number that JSON does not know (` + decimalHint + `, or in quotes)`},
		{`args: [1, 0x10]`, `f:5: jobs[0].args[1]: "0x10": is a number that JSON does not know (` + decimalHint + `, or in quotes)`},
		{`args: {a: {b: 1, b: 2}}`, `f:5: jobs[0].args.a.b: is given twice, first on line 5`},
		{`args: {a: "\0"}`, `f:5: jobs[0].args: holds \u0000, which PostgreSQL cannot store`},
		{`args: {a: 1e999}`, `f:5: jobs[0].args: holds the number 1e999, whose exponent is beyond ±400`},
		{`args: {token: {from_env: TOKEN}}`, `f:5: jobs[0].args.token: from_env is read in exec.env alone, and args are stored as they are written (give the variable to the command in exec.env, or have your worker read it)`},
		{`args: `, `f:5: jobs[0].args: is empty (give a value or remove it)`},
		{`args: "` + strings.Repeat("x", domain.MaxArgsBytes) + `"`, `f:5: jobs[0].args: is 262146 bytes of JSON, at most 262144 are stored (pass a reference to large data)`},
		{`timeout: 10`, `f:5: jobs[0].timeout: "10": has no unit (write a number with its unit: 90s, 10m, 1h30m)`},
		{`timeout: "10"`, `f:5: jobs[0].timeout: "10": is no duration (write a number with its unit: 90s, 10m, 1h30m)`},
		{`timeout: 2d`, `f:5: jobs[0].timeout: "2d": is no duration (write 48h)`},
		{`timeout: 1w`, `f:5: jobs[0].timeout: "1w": is no duration (write 168h)`},
		{`timeout: -1s`, `f:5: jobs[0].timeout: "-1s": is negative (0s is no timeout)`},
		{`timeout: {}`, `f:5: jobs[0].timeout: is a mapping (want a duration such as 90s)`},
		{`retry: 5`, `f:5: jobs[0].retry: "5": is a number (want a retry policy with max_attempts, initial, max, multiplier)`},
		{`retry: {attempts: 5}`, `f:5: jobs[0].retry.attempts: is no field of a retry policy (did you mean max_attempts?)`},
		{`retry: {max_attempts: 0}`, `f:5: jobs[0].retry.max_attempts: "0": is out of range 1-1000000 (1 is no retry)`},
		{`retry: {max_attempts: 2.5}`, `f:5: jobs[0].retry.max_attempts: "2.5": is not a whole number (` + decimalHint + `)`},
		{`retry: {max_attempts: 99999999999999999999}`, `f:5: jobs[0].retry.max_attempts: "99999999999999999999": is not a whole number (` + decimalHint + `)`},
		{`retry: {max_attempts: "3"}`, `f:5: jobs[0].retry.max_attempts: "3": is text (want a whole number)`},
		{`retry: {initial: 1h, max: 1m}`, `f:5: jobs[0].retry.max: "1m0s": is less than initial, which is 1h0m0s`},
		{`retry: {initial: 2h}`, `f:5: jobs[0].retry.max: is 1h0m0s unless given, which is less than initial, 2h0m0s (give max as well)`},
		{`retry: {multiplier: 0.5}`, `f:5: jobs[0].retry.multiplier: "0.5": is not a number from 1 (1 waits equally long each time, 2 doubles)`},
		{`retry: {multiplier: .5}`, `f:5: jobs[0].retry.multiplier: ".5": is not a number (` + decimalHint + `)`},
		{`retry: {multiplier: 1e999}`, `f:5: jobs[0].retry.multiplier: "1e999": is not a number (` + decimalHint + `)`},
		{`overlap: wait`, `f:5: jobs[0].overlap: "wait": is no policy (use skip, queue, replace or allow)`},
		{`misfire: Latest`, `f:5: jobs[0].misfire: "Latest": is no policy (use latest, skip or all)`},
		{`catchup_window: -1h`, `f:5: jobs[0].catchup_window: "-1h0m0s": is negative (0s is no limit)`},
		{`max_catchup: -1`, `f:5: jobs[0].max_catchup: "-1": is out of range 0-100000 (0 is no limit)`},
		{`max_catchup: 1_000`, `f:5: jobs[0].max_catchup: "1_000": is not a whole number (` + decimalHint + `)`},
		{`priority: 10`, `f:5: jobs[0].priority: "10": is out of range 0-9 (0 is first, 9 is last)`},
		{`priority: 05`, `f:5: jobs[0].priority: "05": is not a whole number (` + decimalHint + `)`},
		{`priority: high`, `f:5: jobs[0].priority: "high": is text (want a whole number)`},
		{`start_at: 2026-12-01`, `f:5: jobs[0].start_at: "2026-12-01": is no instant (write 2026-12-01T00:00:00Z)`},
		{`start_at: tomorrow`, `f:5: jobs[0].start_at: "tomorrow": is no instant (write it with its offset: 2026-12-01T00:00:00Z)`},
		{`start_at: 2026-12-01T00:00:00,5Z`, `f:5: jobs[0].start_at: "2026-12-01T00:00:00,5Z": is no instant (write it with its offset: 2026-12-01T00:00:00Z)`},
		{`end_at: 2026-12-01T00:00:00.0000001Z`, `f:5: jobs[0].end_at: "2026-12-01T00:00:00.0000001Z": is finer than a microsecond`},
		{"start_at: 2026-12-01T00:00:00Z\n    end_at: 2026-12-01T00:00:00Z", `f:6: jobs[0].end_at: "2026-12-01T00:00:00Z": is not after start_at, which is 2026-12-01T00:00:00Z`},
		{`tags: billing`, `f:5: jobs[0].tags: "billing": is text (want a list of text)`},
		{`tags: [2026]`, `f:5: jobs[0].tags[0]: "2026": is a number (write it in quotes: "2026")`},
		{"tags:\n      - a\n      - a", `f:7: jobs[0].tags[1]: "a": is given twice`},
		{`paused: yes`, `f:5: jobs[0].paused: "yes": is text (want true or false)`},
		{`paused: 1`, `f:5: jobs[0].paused: "1": is a number (want true or false)`},
		{`http: {url: https://example.com}`, `f:5: jobs[0].http: this version runs no http jobs (call the URL with a program such as curl in exec, or from a kind of your own)|f:5: jobs[0].http: kind and http exclude each other: a job runs one thing (keep one)`},
		{`alerts: {on_failure: true}`, `f:5: jobs[0].alerts: ` + unsupported["alerts"].message + ` (remove it; watch the metrics of failed runs instead)`},
		{`queue: *other`, `f:5: "*other": no anchor of that name comes before it (text that begins with * needs quotes)`},
		{`<<: 5`, `f:5: <<: is a number (want an alias of a mapping, or a list of such)`},
	} {
		expect(t, job+c.line+"\n", strings.Split(c.want, "|")...)
	}
}

func TestRefusedSchedules(t *testing.T) {
	for value, want := range map[string]string{
		`"60 * * * *"`:         `jobs[0].schedule: "60 * * * *": minute: 60 is out of range 0-59`,
		`["@daily", "@dayly"]`: `jobs[0].schedule[1]: "@dayly": `,
		`"@every 1d"`:          `jobs[0].schedule: "@every 1d": @every: "1d" is not a duration (a day is not always 24 hours: use ` + "`@daily` or `@every 24h`)",
		`"0 0 30 2 *"`:         `jobs[0].schedule: "0 0 30 2 *": `,
		`"TZ=UTC @daily"`:      "jobs[0].schedule: \"TZ=UTC @daily\": put the time zone in `time_zone`",
		`""`:                   `jobs[0].schedule: the schedule is empty`,
		`[]`:                   `jobs[0].schedule: is an empty list (remove it for a job that runs on request only)`,
		`5`:                    `jobs[0].schedule: "5": is a number (write it in quotes: "5")`,
		`{cron: "@daily"}`:     `jobs[0].schedule: is a mapping (want text such as "30 2 * * *", or a list of such)`,
		`["@daily", 5]`:        `jobs[0].schedule[1]: "5": is a number (write it in quotes: "5")`,
	} {
		got := refused(t, "jobs:\n  - name: a\n    kind: mine\n    schedule: "+value+"\n")
		if len(got) != 1 || !strings.HasPrefix(got[0], "f:4: "+want) {
			t.Errorf("%s: %q\nwant f:4: %s", value, got, want)
		}
	}
	// YAML has plans of its own for what schedules begin with.
	for value, want := range map[string]string{
		`@daily`:      `"@daily"`,
		`*/5 * * * *`: `"*/5 * * * *"`,
		`* * * * *`:   `"* * * * *"`,
	} {
		got := refused(t, "jobs:\n  - name: a\n    kind: mine\n    schedule: "+value+"\n    queue: b\n")
		if len(got) != 1 || !strings.HasPrefix(got[0], "f:4: the file is not valid YAML: ") || !strings.HasSuffix(got[0], "(write the value in quotes: "+want+")") {
			t.Errorf("%s: %q, want to be told to write %s", value, got, want)
		}
	}
	for _, problem := range func() []Problem {
		_, err := Parse("f", []byte(`{"jobs": [{"name": "a", "kind": "b", "schedule": "60 * * * *"}]}`), Options{})
		var all *Errors
		errors.As(err, &all)
		return all.Problems
	}() {
		if problem.Code != "E_RANGE" {
			t.Errorf("%+v", problem)
		}
	}
}

func TestRefusedTargets(t *testing.T) {
	const job = "jobs:\n  - name: a\n    "
	for _, c := range []struct{ line, want string }{
		{`queue: b`, `f:2: jobs[0].exec: is missing: the job says nothing to run (give exec, or the kind that a worker of yours declares)`},
		{"exec: {argv: [ls]}\n    kind: mine", `f:4: jobs[0].kind: exec and kind exclude each other: a job runs one thing (keep one)`},
		{"exec: {argv: [ls]}\n    http: {}", `f:4: jobs[0].http: this version runs no http jobs (call the URL with a program such as curl in exec, or from a kind of your own)|f:4: jobs[0].http: exec and http exclude each other: a job runs one thing (keep one)`},
		{`kind: exec`, `f:3: jobs[0].kind: "exec": is built in and not declared by a worker of yours (describe the command instead: exec: {argv: [program, argument]})`},
		{`kind: http`, `f:3: jobs[0].kind: "http": is built in and not declared by a worker of yours (this version runs no http jobs; choose another name for yours)`},
		{`kind: Mine`, `f:3: jobs[0].kind: "Mine": is no name of a kind (use a-z, 0-9, - and _, at most 64)`},
		{`kind: [a]`, `f:3: jobs[0].kind: is a list (want text)`},
		{`kind:`, `f:3: jobs[0].kind: is empty (give a value or remove it)`},
		{`exec: ls -l`, `f:3: jobs[0].exec: "ls -l": is text (want exec: {shell: "…"} for a command line, or exec: {argv: [program, argument]})`},
		{`exec: [ls, -l]`, `f:3: jobs[0].exec: is a list (want a command with argv, shell, shell_path, stdin, env, dir, user)`},
		{`exec: {}`, `f:3: jobs[0].exec.argv: nothing to run; want [program, argument…]`},
		{`exec: {argv: [sleep, 5]}`, `f:3: jobs[0].exec.argv[1]: "5": is a number (write it in quotes: "5")`},
		{`exec: {argv: ls}`, `f:3: jobs[0].exec.argv: "ls": is text (want a list of text)`},
		{`exec: {argv: [ls], shell: ls}`, `f:3: jobs[0].exec.shell: excludes argv; give one of the two`},
		{`exec: {arg: [ls]}`, `f:3: jobs[0].exec.arg: is no field of a command (did you mean argv?)`},
		{`exec: {shell: ls, cwd: /}`, `f:3: jobs[0].exec.cwd: is no field of a command (did you mean dir?)`},
		{`exec: {shell: ls, dir: var}`, `f:3: jobs[0].exec.dir: "var" is relative; want an absolute path`},
		{`exec: {shell: ls, env: {A: 1}}`, `f:3: jobs[0].exec.env.A: "1": is a number (write it in quotes: "1")`},
		{`exec: {shell: ls, env: [A]}`, `f:3: jobs[0].exec.env: is a list (want a mapping of variables)`},
		{`exec: {shell: ls, env: {A: {from: B}}}`, `f:3: jobs[0].exec.env.A.from: is no field of a variable (the fields are from_env)`},
		{`exec: {shell: ls, env: {A: {from_env: ""}}}`, `f:3: jobs[0].exec.env.A.from_env: names no variable (want {from_env: NAME})`},
		{`exec: {shell: ls, env: {A: b, A: c}}`, `f:3: jobs[0].exec.env.A: is given twice, first on line 3`},
		{`exec: {shell: ls, user: a b}`, `f:3: jobs[0].exec.user: "a b" cannot name an account`},
		{"exec:\n      shell: ls\n      env:\n        DAYBOOK_X: b", `f:6: jobs[0].exec.env.DAYBOOK_X: names with DAYBOOK_ are set by Daybook itself; choose another`},
	} {
		expect(t, job+c.line+"\n", strings.Split(c.want, "|")...)
	}
}

func TestFieldsThatNeedASchedule(t *testing.T) {
	for name, value := range map[string]string{
		"time_zone": "UTC", "overlap": "skip", "misfire": "skip", "catchup_window": "1h", "max_catchup": "3",
		"start_at": "2026-12-01T00:00:00Z", "end_at": "2026-12-01T00:00:00Z",
	} {
		expect(t, "jobs:\n  - name: a\n    kind: mine\n    "+name+": "+value+"\n",
			fmt.Sprintf("f:4: jobs[0].%s: %q: means nothing without a schedule (add one or remove this)", name, value))
	}
}

func TestNamesAreUnique(t *testing.T) {
	expect(t, "jobs:\n- {name: a, kind: k}\n- kind: k\n  name: b\n- {kind: k,\n   name: a}\n- name: b\n  kind: k\n- {name: a, kind: k}\n",
		`f:6: jobs[2].name: "a": is the name of jobs[0] on line 2 too (names are unique)`,
		`f:7: jobs[3].name: "b": is the name of jobs[1] on line 4 too (names are unique)`,
		`f:9: jobs[4].name: "a": is the name of jobs[0] on line 2 too (names are unique)`)
	for _, name := range []string{"A", "-a", "_a", "a b", "a.b", "ä", strings.Repeat("n", 65)} {
		expect(t, "jobs: [{name: '"+name+"', kind: k}]",
			fmt.Sprintf("f:1: jobs[0].name: %q: is no name (use a-z, 0-9, - and _, at most 64, beginning with a letter or digit)", name))
	}
	expect(t, `jobs: [{kind: k}]`, `f:1: jobs[0].name: is missing (every job has a name, by which it is known for ever)`)
	expect(t, `jobs: [{name: 5, kind: k}]`, `f:1: jobs[0].name: "5": is a number (write it in quotes: "5")`)
}

func TestRefusedFiles(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", `f: the file is empty (want a list of jobs under jobs:)`},
		{"# nothing\n", `f: the file is empty (want a list of jobs under jobs:)`},
		{"null", `f: the file is empty (want a list of jobs under jobs:)`},
		{"- name: a\n", `f:1: the file is a list (put the list under jobs:)`},
		{"name: a\nkind: b\n", `f:1: the file is a single job (put it into a list under jobs:)`},
		{"just text", `f:1: "just text": is text (want a jobs file with jobs, calendars)`},
		{"job: []\n", `f:1: job: is no field of a jobs file (did you mean jobs?)|f:1: jobs: is missing (want a list of jobs)`},
		{"jobs: {a: {}}\n", `f:1: jobs: is a mapping (want a list of jobs)`},
		{"jobs:\n", `f:1: jobs: is empty (give a value or remove it)`},
		{"jobs: [a]\n", `f:1: jobs[0]: "a": is text (want a job)`},
		{"jobs:\n-\n", `f:2: jobs[0]: is empty (want a job)`},
		{"jobs: []\n---\njobs: []\n", `f:3: the file holds several documents (put all jobs into one list, or into files of their own)`},
		{"channels: {}\njobs: []\n", `f:1: channels: ` + unsupportedInFile["channels"].message + ` (remove it)`},
		{"jobs:\n\xff", `f:2: the file is not UTF-8 (save it as UTF-8)`},
		{"jobs: 'x", `f:1: the file is not valid YAML: could not find end character of single-quoted text`},
		{`{"jobs": []} x`, `f:1: the file is not valid YAML: value is not allowed in this context`},
	} {
		expect(t, c.src, strings.Split(c.want, "|")...)
	}
}

// TestEveryProblemIsReported, in the order of lines.
func TestEveryProblemIsReported(t *testing.T) {
	expect(t, `jobs:
  - name: A
    schedule: ["61 * * * *", "@daily", "* * *"]
    exec: {argv: []}
    priority: 11
  - kind: mine
    timeout: 5
  - name: c
    kind: mine
    priority: 12
`,
		`f:2: jobs[0].name: "A": is no name (use a-z, 0-9, - and _, at most 64, beginning with a letter or digit)`,
		`f:3: jobs[0].schedule[0]: "61 * * * *": minute: 61 is out of range 0-59`,
		`f:3: jobs[0].schedule[2]: "* * *": 3 fields, expected 5: minute hour day-of-month month day-of-week`,
		`f:4: jobs[0].exec.argv: nothing to run; want [program, argument…]`,
		`f:5: jobs[0].priority: "11": is out of range 0-9 (0 is first, 9 is last)`,
		`f:6: jobs[1].name: is missing (every job has a name, by which it is known for ever)`,
		`f:7: jobs[1].timeout: "5": has no unit (write a number with its unit: 90s, 10m, 1h30m)`,
		`f:10: jobs[2].priority: "12": is out of range 0-9 (0 is first, 9 is last)`,
	)
}
