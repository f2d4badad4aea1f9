package crontab

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daybookhq/daybook/domain/schedule"
)

// repeated is a file of n lines that exists only while it is read.
type repeated struct {
	n, i int
	line func(i int) string
	rest string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.i == r.n {
			return 0, io.EOF
		}
		r.rest = r.line(r.i) + "\n"
		r.i++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func TestLargeFile(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		line func(i int) string
	}{
		"different": {100_000, func(i int) string { return fmt.Sprintf("%d %d * * * /opt/job --customer %d", i%60, i%24, i) }},
		"the same":  {20_000, func(int) string { return "* * * * * /opt/job" }},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Parse(&repeated{n: c.n, line: c.line}, Options{File: "/etc/large"})
			if err != nil || len(f.Entries) != c.n || len(f.Problems) != 0 {
				t.Fatalf("error %v, %d entries, %d problems", err, len(f.Entries), len(f.Problems))
			}
			seen := make(map[string]bool, c.n)
			for _, e := range f.Entries {
				if seen[e.Name] {
					t.Fatalf("two jobs are named %s", e.Name)
				}
				seen[e.Name] = true
			}
		})
	}
}

func TestEndlessLineNeedsBoundedMemory(t *testing.T) {
	const size = 64 << 20
	zeros := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := Parse(io.LimitReader(zeros, size), Options{})
	runtime.ReadMemStats(&after)
	if err != nil || f.Errors() != 1 {
		t.Fatalf("error %v, file %+v", err, f)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/64 {
		t.Fatalf("a line of %d bytes took %d bytes", size, used)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFilesBeyondTheBoundsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		line func(i int) string
		want string
	}{
		"lines":     {func(int) string { return "" }, "more than 500000 lines"},
		"errors":    {func(int) string { return "\x00\x01" }, "is this a crontab?"},
		"variables": {func(i int) string { return fmt.Sprintf("V%d=x", i) }, "is this a crontab?"},
		"snapshots": {func(i int) string {
			if i >= MaxVariables && i%2 == 0 {
				return "* * * * * x"
			}
			return fmt.Sprintf("V%d=x", i%MaxVariables)
		}, "too many variables change"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(&repeated{n: 10 * MaxLines, line: c.line}, Options{File: "/etc/endless"})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "/etc/endless: line ") {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "# x", "A=1\n* * * * * x", "A=\"\n'B'=x\n", "@daily root x%y\\%z", "-*/5 * * * * x\r\n", "\ufeff@reboot x",
		"CRON_TZ=Asia/Tokyo\n0 0 1 1 * x\nCRON_TZ=\n", "SHELL=sh\n* * * * * x", "0 0 0 * * * x", "\xff\x00", "* * * * * \\", "#0 5 * * * x\n@hourly y",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, system bool) {
		file, err := Parse(strings.NewReader(text), Options{File: "/etc/fuzz", System: system})
		if err != nil {
			return // a bound
		}
		told := map[int]bool{}
		for _, p := range file.Problems {
			told[p.Line] = true
			if !utf8.ValidString(p.Text+p.Reason) || strings.ContainsAny(p.Text+p.Reason, "\x00\n") || p.Reason == "" {
				t.Errorf("problem %q", p)
			}
		}
		names := map[string]bool{}
		for _, e := range file.Entries {
			told[e.Line] = true
			if names[e.Name] || !jobName.MatchString(e.Name) {
				t.Errorf("line %d: name %q", e.Line, e.Name)
			}
			names[e.Name] = true
			if _, err := schedule.Parse(e.Expr, schedule.Options{Zone: e.Zone}); err != nil {
				t.Errorf("line %d: %v", e.Line, err)
			}
			if err := e.Target().Validate(); err != nil {
				t.Errorf("line %d: %v", e.Line, err)
			}
			if (e.User != "") != system {
				t.Errorf("line %d: user %q", e.Line, e.User)
			}
		}
		// No line may vanish: it is blank, a comment, an assignment, an entry or a problem.
		for i, l := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
			l = strings.TrimLeft(strings.TrimSuffix(l, "\r"), " \t")
			if _, _, assigned := assignment(l); l == "" || l[0] == '#' || assigned {
				continue
			}
			if !told[i+1] {
				t.Errorf("nothing is said of line %d: %q", i+1, l)
			}
		}
	})
}
