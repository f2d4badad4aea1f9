package jobsfile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
)

// TestScalars: what is written decides what a value is; nothing is guessed.
func TestScalars(t *testing.T) {
	for in, want := range map[string]string{
		`1`: `1`, `-0`: `-0`, `1.50`: `1.50`, `1e3`: `1e3`, `1E+3`: `1E+3`, `-1.5e-3`: `-1.5e-3`,
		`12345678901234567890123`: `12345678901234567890123`,
		`"1"`:                     `"1"`, `'1e3'`: `"1e3"`,
		`true`: `true`, `True`: `true`, `FALSE`: `false`, `yes`: `"yes"`, `on`: `"on"`, `y`: `"y"`,
		`null`: `null`, `~`: `null`, `[~]`: `[null]`,
		`2026-12-01`: `"2026-12-01"`, `1:30`: `"1:30"`, `0x`: `"0x"`, `1.2.3`: `"1.2.3"`,
		`""`: `""`, `a b`: `"a b"`, `<&>`: `"<&>"`, `"\u00e9\t\""`: `"é\t\""`, `"\ud83d\ude00"`: `"😀"`,
		`{a: {b: [1, {c: d}]}}`: `{"a":{"b":[1,{"c":"d"}]}}`, `{}`: `{}`, `[]`: `[]`,
		"|\n      a\n      b\n": `"a\nb\n"`, ">-\n      a\n      b\n": `"a b"`, "|\n": `""`,
		"\n      - 1\n      - x: 2\n        y: 3\n": `[1,{"x":2,"y":3}]`,
		`{from_env: 1}`: `{"from_env":1}`, `{from_env: A, b: c}`: `{"from_env":"A","b":"c"}`,
	} {
		f, err := Parse("f", []byte("jobs:\n  - name: a\n    kind: mine\n    args: {v: "+in+"}\n"), Options{})
		if strings.HasPrefix(in, "|") || strings.HasPrefix(in, ">") || strings.HasPrefix(in, "\n") {
			f, err = Parse("f", []byte("jobs:\n  - name: a\n    kind: mine\n    args:\n     v: "+in), Options{})
		}
		if err != nil {
			t.Errorf("%q: %v", in, err)
		} else if got := string(f.Jobs[0].Spec.Args); got != `{"v":`+want+`}` {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	for _, in := range []string{`1_000`, `0o14`, `0x1F`, `0b1`, `+5`, `.5`, `5.`, `010`, `09`, `12e03_`, `.nan`, `-.inf`, `00`, `+.5e1`} {
		src := "jobs:\n  - name: a\n    kind: mine\n    args: [" + in + "]\n"
		if in == `12e03_` {
			continue
		}
		if got := refused(t, src); len(got) != 1 || !strings.Contains(got[0], "is a number that JSON does not know") {
			t.Errorf("%s: %q", in, got)
		}
	}
}

func TestAnchorsAndMerging(t *testing.T) {
	f, err := Parse("f", []byte(`jobs:
  - &base
    name: first
    kind: mine
    queue: mail
    retry: &patient {max_attempts: 9, initial: 1m}
    args: &args {a: 1, b: {c: 2}}
  - <<: *base
    name: second
    retry: {<<: *patient, max_attempts: 2}
    args: {again: *args, list: [*args, *args]}
  - name: third
    <<: [{queue: first-wins, priority: 1}, {queue: second, tags: [x]}]
    kind: mine
    retry: *patient
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := f.Jobs[0].Spec, f.Jobs[1].Spec, f.Jobs[2].Spec
	if first.Name != "first" || first.Queue != "mail" || first.Retry.MaxAttempts != 9 || string(first.Args) != `{"a":1,"b":{"c":2}}` {
		t.Errorf("%+v", first)
	}
	if second.Name != "second" || second.Queue != "mail" || second.Kind != "mine" || second.Retry.MaxAttempts != 2 || second.Retry.Initial != domain.Duration(time.Minute) ||
		string(second.Args) != `{"again":{"a":1,"b":{"c":2}},"list":[{"a":1,"b":{"c":2}},{"a":1,"b":{"c":2}}]}` {
		t.Errorf("%+v %s", second, second.Args)
	}
	if third.Queue != "first-wins" || third.Priority != 1 || len(third.Tags) != 1 || third.Retry != first.Retry {
		t.Errorf("%+v", third)
	}
	// What is wrong with an alias is told where it is written, once for each use.
	expect(t, "jobs:\n  - {name: a, kind: k, retry: &r {max_attempts: 0}}\n  - {name: b, kind: k, retry: *r}\n",
		`f:2: jobs[0].retry.max_attempts: "0": is out of range 1-1000000 (1 is no retry)`,
		`f:2: jobs[1].retry.max_attempts: "0": is out of range 1-1000000 (1 is no retry)`)
	expect(t, "jobs:\n  - {name: a, kind: k, args: &r {x: *r}}\n", `f:2: "*r": no anchor of that name comes before it (text that begins with * needs quotes)`)
}

// TestWindowsFiles: byte order mark and line ends of other systems.
func TestWindowsFiles(t *testing.T) {
	f, err := Parse("f", []byte("\ufeffjobs:\r\n  - name: a\r\n    kind: mine\r\n    queue: b\r\n"), Options{})
	if err != nil || f.Jobs[0].Spec.Queue != "b" {
		t.Errorf("%+v, %v", f, err)
	}
	expect(t, "jobs:\r\n  - name: a\r\n    kind: mine\r\n    queue: B\r\n", `f:4: jobs[0].queue: "B": is no name of a queue (use a-z, 0-9, - and _, at most 64)`)
	if _, err = Parse("f", []byte("\ufeff{\"jobs\": []}"), Options{}); err != nil {
		t.Error(err)
	}
	if _, err = Parse("f", []byte("%YAML 1.2\n---\njobs: []\n...\n"), Options{}); err != nil {
		t.Error(err)
	}
}

// TestBounds: what would take too much is refused for that reason, and soon.
func TestBounds(t *testing.T) {
	jobs := func(n int) string {
		var b strings.Builder
		b.WriteString("jobs:\n")
		for i := range n {
			fmt.Fprintf(&b, "- name: job-%d\n  kind: mine\n", i)
		}
		return b.String()
	}
	if f, err := Parse("f", []byte(jobs(MaxJobs)), Options{}); err != nil || len(f.Jobs) != MaxJobs {
		t.Error(err)
	}
	expect(t, jobs(MaxJobs+1), `f:1: jobs: has 10001 jobs, at most 10000 are read (split the file into several)`)
	expect(t, "# "+strings.Repeat("x", MaxBytes), `f: the file has 1048578 bytes, at most 1048576 (1 MiB) are read (split it into several files)`)

	const deep = "values are nested more than 64 deep"
	args := func(v string) string { return "jobs:\n- name: a\n  kind: mine\n  args: " + v + "\n" }
	for name, c := range map[string]struct{ src, want string }{
		"brackets":            {args(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), deep},
		"open brackets":       {args(strings.Repeat("[", 20_000)), deep},
		"braces":              {args(strings.Repeat("{a: ", 20_000)), deep},
		"closed first":        {args("]" + strings.Repeat("[", 20_000)), deep},
		"dashes":              {strings.Repeat("- ", 20_000) + "x", deep},
		"keys":                {strings.Repeat("? ", 20_000) + "x", "a key must be text"},
		"documents":           {strings.Repeat("--- a\n", 20_000), "several documents"},
		"ends":                {strings.Repeat("a\n...\n", 20_000), "several documents"},
		"fields":              {args("{}") + strings.Repeat("  f: 1\n", 20_000), "more than 1000 fields"},
		"fields in braces":    {args("{" + strings.Repeat("f: 1, ", 20_000) + "}"), "more than 1000 fields"},
		"fields of JSON":      {`{"jobs": {` + strings.Repeat(`"f": 1, `, 20_000) + `"f": 1}}`, "more than 1000 fields"},
		"empty items":         {args("") + strings.Repeat("  - \n", 20_000), "leaves out more than 1000"},
		"empty fields":        {"jobs:\n" + strings.Repeat("- name:\n", 20_000), "leaves out more than 1000"},
		"empty in braces":     {args("[" + strings.Repeat("{a}, ", 20_000) + "]"), "leaves out more than 1000"},
		"empty after colons":  {args("[" + strings.Repeat("{a: }, ", 20_000) + "]"), "leaves out more than 1000"},
		"tags":                {"a: " + strings.Repeat("!!x ", 20_000) + "x", deep},
		"tags on lines":       {"a:\n" + strings.Repeat("!!x\n", 20_000) + "x", deep},
		"anchors":             {"a: " + strings.Repeat("&x ", 20_000) + "x", deep},
		"JSON":                {`{"jobs": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", deep},
		"JSON of the parser":  {`{"jobs": ` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}", deep},
		"aliases":             {args("[" + chain(80, "[*PREV]") + "*a79]"), deep},
		"laughing":            {args("[" + chain(40, "[*PREV, *PREV, *PREV]") + "*a39]"), "more than 4194304 bytes"},
		"laughing in vectors": {"jobs:\n- name: a\n  exec:\n    argv: [&big \"" + strings.Repeat("x", 100_000) + "\"" + strings.Repeat(", *big", 1000) + "]\n", "more than 4194304 bytes"},
		"merging":             {merging(), "more than 524288 values"},
		"words":               {args("[" + strings.Repeat("1,", 300_000) + "1]"), "words and signs, at most"},
	} {
		got := refused(t, c.src)
		if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), c.want) {
			t.Errorf("%s: %s, want %s", name, clip(strings.Join(got, "\n")), c.want)
		}
	}
	if _, err := Parse("f", []byte(args(strings.Repeat("[", 60)+strings.Repeat("]", 60))), Options{}); err != nil {
		t.Error(err)
	}
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "    f%d: [x, {y: z}]\n", i)
		}
		return args("\n" + b.String())
	}
	if _, err := Parse("f", []byte(fields(1000)), Options{}); err != nil {
		t.Error(err)
	}
	expect(t, fields(1001), "f:1005: a mapping has more than 1000 fields")
	long := args("{" + strings.Repeat("a b c: d e f, ", 50) + "x: " + strings.Repeat("y ", 1000) + "}")
	if got := refused(t, long); len(got) != 49 { // the key is given again and again
		t.Errorf("%d problems with a long line", len(got))
	}
}

// chain makes anchors a0, a1 … each of which is the pattern of the one before.
func chain(n int, pattern string) string {
	var b strings.Builder
	b.WriteString("&a0 [1], ")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "&a%d %s, ", i, strings.ReplaceAll(pattern, "PREV", fmt.Sprintf("a%d", i-1)))
	}
	return b.String()
}

// merging makes a mapping of many fields and merges it over and over.
func merging() string {
	var b strings.Builder
	b.WriteString("jobs:\n- name: a\n  kind: mine\n  args:\n    base: &base {")
	for i := range 900 {
		fmt.Fprintf(&b, "k%d: 1, ", i)
	}
	b.WriteString("}\n")
	for i := range 900 {
		fmt.Fprintf(&b, "    m%d: {<<: *base}\n", i)
	}
	return b.String()
}

// TestHopelessFiles: not every problem of a file in which nothing is right is
// kept, but all are counted.
func TestHopelessFiles(t *testing.T) {
	src := "jobs:\n" + strings.Repeat("- {name: A, kind: mine}\n", 3000)
	got := refused(t, src)
	if want := "and 4999 more problems"; len(got) != 1001 || got[1000] != want { // 3000 bad names, 2999 twice
		t.Errorf("%d lines, the last %q, want %q", len(got), got[len(got)-1], want)
	}
}
