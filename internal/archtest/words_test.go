package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The patterns are put together from pieces so that they do not find themselves.

// promise is what no distributed system can keep. It is found across a line
// break and a comment's beginning, and as an identifier.
var promise = regexp.MustCompile(`(?i)exact` + `ly[^\pL\pN]{0,8}on` + `ce`)

// foreign is what betrays the place where something was written. A testdata
// directory may hold homes: crontabs are full of them.
var foreign = []struct {
	what    string
	pattern *regexp.Regexp
	data    bool // holds in testdata and tests, too
}{
	{"a path of one machine", regexp.MustCompile(`(?:^|[^\w.])/(?:wo` + `rk|fa` + `rm|tmp/bri` + `ef)/`), true},
	{"a path outside of the repository", regexp.MustCompile(`\.\./sha` + `red\b`), true},
	{"a package registry's host", regexp.MustCompile(`proxy\.gol` + `ang|registry\.npm` + `js|deb\.deb` + `ian`), true},
	{"somebody's home", regexp.MustCompile(`(?:^|[^\w.])/(?:ro` + `ot|ho` + `me/\w+|Us` + `ers/\w+)/`), false},
}

func TestWords(t *testing.T) {
	for _, problem := range wordProblems(t, root) {
		t.Error(problem)
	}
}

func wordProblems(t *testing.T, dir string) (problems []string) {
	t.Helper()
	report := func(name string, src []byte, at int, what string) {
		line := 1 + strings.Count(string(src[:at]), "\n")
		problems = append(problems, fmt.Sprintf("%s:%d: %s", name, line, what))
	}
	walk(t, dir, func(name string) bool {
		return !slices.Contains([]string{".git", "node_modules"}, path.Base(name)) && name != "bin"
	}, func(name string, src []byte) {
		if promise.MatchString(name) {
			problems = append(problems, name+": the name promises what cannot be kept")
		}
		if binary(src) {
			return
		}
		for _, m := range promise.FindAllIndex(src, -1) {
			report(name, src, m[0], "promises what cannot be kept: say at least once, or effectively once, or one run")
		}
		data := strings.HasSuffix(name, "_test.go") || slices.Contains(strings.Split(name, "/"), "testdata")
		for _, f := range foreign {
			if data && !f.data {
				continue
			}
			for _, m := range f.pattern.FindAllIndex(src, -1) {
				report(name, src, m[0], f.what+" has no place here")
			}
		}
	})
	return problems
}

func TestWordsAreNoticed(t *testing.T) {
	ex, on := "exact"+"ly", "on"+"ce"
	bad := []string{
		ex + "-" + on, strings.ToUpper(ex) + " " + on, "x\n// delivered " + ex + "\n// " + on + ".", "Exact" + "lyOn" + "ce",
		"see /wo" + "rk/main/x", "/tmp/bri" + "ef/x", "../sha" + "red/x", "https://proxy.gol" + "ang.org", "cd /ro" + "ot/x", "/ho" + "me/ann/x",
	}
	good := []string{
		"effectively once", "at least once", "exactly two, and once more", "POST /v1/wo" + "rk/start", "a/b/wo" + "rk/c",
		"the root/ directory", "shared/ things",
	}
	files := map[string]string{"x/testdata/crontab": "* * * * * /ho" + "me/ann/backup.sh"}
	for i, s := range bad {
		files[fmt.Sprintf("bad%02d.md", i)] = s
	}
	for i, s := range good {
		files[fmt.Sprintf("good%02d.md", i)] = s
	}
	files[".git/x"], files["bin/x"], files["binary"] = bad[0], bad[0], "\x00"+bad[0]
	seen := wordProblems(t, plant(t, files))
	for i, s := range bad {
		name := fmt.Sprintf("bad%02d.md:", i)
		if !slices.ContainsFunc(seen, func(p string) bool { return strings.HasPrefix(p, name) }) {
			t.Errorf("%q was not noticed", s)
		}
	}
	for _, p := range seen {
		if !strings.HasPrefix(p, "bad") {
			t.Errorf("noticed without reason: %s", p)
		}
	}
}
