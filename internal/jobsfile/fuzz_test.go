package jobsfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/domain"
)

// FuzzParse: whatever the file holds, it is read or refused. What is read is
// valid, reads the same again after JSON, and what is refused says where and why.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 3 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, s := range []string{
		"", "jobs:", "jobs: [{name: a, kind: b}]", "jobs:\n- &a {name: a, kind: b}\n- {<<: *a, name: c}\n", "%YAML 1.2\n---\njobs: []",
		"jobs: [{name: a, kind: b, args: {x: [1e3, 0x1, ~, !!str 5]}}]", "? [a]\n: b", "jobs: |\n  x", "a: &x [*x]", "- - - ? a\n", "\ufeffjobs: []\r\n",
		"jobs: [{name: a, exec: {argv: [a], env: {A: {from_env: B}}}}]", `{"jobs": [{"name": "a", "kind": "\ud800"}]}`, "\"\\u0000\": [", "<<: {a: b}", "a: \t- b", "\rA",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse("f", src, Options{})
		if err != nil {
			var all *Errors
			if !errors.As(err, &all) || file != nil || len(all.Problems) == 0 || len(all.Problems) > maxProblems {
				t.Fatalf("%v, %+v", err, file)
			}
			lines := bytes.Count(src, []byte{'\n'}) + bytes.Count(src, []byte{'\r'}) + 1 // YAML takes either for a line's end
			for _, p := range all.Problems {
				if p.File != "f" || p.Message == "" || p.Line < 0 || p.Line > lines || len(p.Value) > 90 || strings.HasPrefix(p.Message, "the YAML parser gave up") {
					t.Fatalf("%+v in %d lines", p, lines)
				}
			}
			return
		}
		for _, job := range file.Jobs {
			if errs := job.Spec.Validate(); len(errs) > 0 || job.Line < 1 {
				t.Fatalf("%+v: %v", job, errs)
			}
			b, err := json.Marshal(job.Spec)
			if err != nil {
				t.Fatal(err)
			}
			var stored domain.JobSpec
			if err := json.Unmarshal(b, &stored); err != nil || len(stored.Changed(job.Spec)) > 0 {
				t.Fatalf("%s: %v, changed %q", b, err, stored.Changed(job.Spec))
			}
		}
	})
}
