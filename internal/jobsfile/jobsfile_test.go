package jobsfile

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/executor"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t testing.TB, name string, src []byte) *File {
	t.Helper()
	f, err := Parse(name, src, Options{Source: "etc/" + name})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEveryField(t *testing.T) {
	f := parse(t, "full.yaml", read(t, "full.yaml"))
	target := func(x executor.Target) json.RawMessage {
		b, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	start, end := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC), time.Date(2027, 12, 1, 0, 0, 0, 0, time.UTC)
	byDefault := domain.JobSpec{
		TimeZone: "UTC", Queue: "default", Timeout: domain.Duration(time.Hour),
		Retry:   domain.RetryPolicy{MaxAttempts: 5, Initial: domain.Duration(10 * time.Second), Max: domain.Duration(time.Hour), Multiplier: 2},
		Overlap: domain.OverlapSkip, Misfire: domain.MisfireLatest, CatchupWindow: domain.Duration(24 * time.Hour), MaxCatchup: 100, Priority: 5,
		Source: "etc/full.yaml",
	}
	second, third := byDefault, byDefault
	second.Name, second.Kind = "every-quarter", "exec"
	second.Schedules = []string{"@every 15m", "@at 2027-01-01T00:00:00Z"}
	second.Target = target(executor.Target{Shell: "cd /srv && ./tidy < list"})
	third.Name, third.Kind, third.Timeout = "send-email", "send-email", 0
	want := []Job{
		{Line: 3, Paused: true, Spec: domain.JobSpec{
			Name: "nightly-report", Schedules: []string{"30 2 * * *"}, TimeZone: "America/New_York", Queue: "reports", Kind: "exec",
			Target: target(executor.Target{
				Argv: []string{"/usr/local/bin/report", "--all"}, Stdin: "first line\nsecond line\n", Dir: "/var/lib/report", User: "report",
				Env: map[string]executor.EnvValue{"MODE": executor.Literal("full"), "TOKEN": executor.FromEnv("REPORT_TOKEN")},
			}),
			Args:    json.RawMessage(`{"scope":"all","weights":[1,1.50,2e3],"none":null,"deep":{"yes":true}}`),
			Timeout: domain.Duration(10 * time.Minute),
			Retry:   domain.RetryPolicy{MaxAttempts: 3, Initial: domain.Duration(5 * time.Second), Max: domain.Duration(2 * time.Hour), Multiplier: 1.5},
			Overlap: domain.OverlapQueue, Misfire: domain.MisfireAll, CatchupWindow: domain.Duration(48 * time.Hour), MaxCatchup: 10, Priority: 0,
			StartAt: &start, EndAt: &end, Tags: []string{"billing", "2026"}, Source: "etc/full.yaml",
		}},
		{Line: 29, Spec: second},
		{Line: 33, Spec: third},
	}
	if f.Name != "full.yaml" || len(f.Jobs) != len(want) {
		t.Fatalf("%s with %d jobs", f.Name, len(f.Jobs))
	}
	for i := range want {
		if !reflect.DeepEqual(f.Jobs[i], want[i]) {
			t.Errorf("job %d:\n%+v\nwant\n%+v", i, f.Jobs[i], want[i])
		}
	}
}

// TestJSONIsTheSame: the same file in JSON, with tabs and escapes, defines the
// same jobs, and knows its lines.
func TestJSONIsTheSame(t *testing.T) {
	y, j := parse(t, "full.yaml", read(t, "full.yaml")), parse(t, "full.json", read(t, "full.json"))
	if len(y.Jobs) != len(j.Jobs) {
		t.Fatalf("%d jobs in YAML, %d in JSON", len(y.Jobs), len(j.Jobs))
	}
	for i, line := range []int{3, 29, 30} {
		a, b := y.Jobs[i], j.Jobs[i]
		if changed := a.Spec.Changed(b.Spec); !reflect.DeepEqual(changed, []string{"source"}) || a.Paused != b.Paused {
			t.Errorf("%s differs in %q", a.Spec.Name, changed)
		}
		if b.Line != line {
			t.Errorf("%s begins on line %d, want %d", b.Spec.Name, b.Line, line)
		}
	}
}

// TestJSONIsNotYAML: what YAML gives a meaning to is plain text in JSON.
func TestJSONIsNotYAML(t *testing.T) {
	const args = `{"<<":{"x":1},"*a":"*a","":"","%":"\u2028&","n":[1e3,1E400,-0.50]}`
	f, err := Parse("f", []byte("{\"jobs\":[{\"name\":\"a\",\"kind\":\"b\",\"args\":"+args+"}]}"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(f.Jobs[0].Spec.Args); got != strings.Replace(args, `\u2028`, "\u2028", 1) && got != args {
		t.Errorf("%s, want %s", got, args)
	}
}

// TestExampleOfTheContract: with what this version lacks taken out, the example
// is accepted; with it, each such field is refused by name.
func TestExampleOfTheContract(t *testing.T) {
	example := read(t, "example.yaml")
	_, err := Parse("example.yaml", example, Options{})
	var refused *Errors
	if len(unsupported) > 0 && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(example)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, inJob := unsupported[name]
		_, inFile := unsupportedInFile[name]
		if !inJob && !inFile {
			kept = append(kept, line)
			continue
		}
		found := false
		for _, p := range refused.Problems {
			found = found || strings.HasSuffix("."+p.Field, "."+name) && strings.HasPrefix(p.Message, "this version ") && p.Hint != "" && p.Line > 0
		}
		if !found {
			t.Errorf("%s is not refused by name:\n%v", name, err)
		}
	}
	if f := parse(t, "example.yaml", []byte(strings.Join(kept, ""))); len(f.Jobs) != 1 || f.Jobs[0].Spec.Args == nil {
		t.Errorf("%+v", f)
	}
}

func TestParseJob(t *testing.T) {
	job, err := ParseJob("request body", []byte(`{"name": "a", "kind": "send-email", "paused": true}`), Options{})
	if err != nil || job.Spec.Name != "a" || job.Spec.Kind != "send-email" || !job.Paused || job.Line != 1 || job.Spec.Retry.MaxAttempts != 5 {
		t.Errorf("%+v, %v", job, err)
	}
	_, err = ParseJob("request body", []byte("{\n\"name\": \"a\",\n\"kind\": \"send-email\",\n\"retry\": {\"max\": \"1s\"}}"), Options{})
	if want := `request body:4: retry.max: "1s": is less than initial, which is 10s`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	for _, src := range []string{``, `[]`, `"a"`, `null`, `jobs: []`} {
		if job, err := ParseJob("request body", []byte(src), Options{}); err == nil {
			t.Errorf("%q: %+v", src, job)
		}
	}
}

func TestNoJobs(t *testing.T) {
	if f := parse(t, "a", []byte("jobs: []\n")); len(f.Jobs) != 0 {
		t.Errorf("%+v", f)
	}
}

// TestDefinitionsComeBackUnchanged: what a file defines and the log keeps is
// not changed by reading the file again.
func TestDefinitionsComeBackUnchanged(t *testing.T) {
	for _, job := range parse(t, "full.yaml", read(t, "full.yaml")).Jobs {
		b, err := json.Marshal(job.Spec)
		if err != nil {
			t.Fatal(err)
		}
		var stored domain.JobSpec
		if err := json.Unmarshal(b, &stored); err != nil {
			t.Fatal(err)
		}
		if changed := stored.Changed(job.Spec); len(changed) > 0 {
			t.Errorf("%s changed %q", job.Spec.Name, changed)
		}
	}
}
