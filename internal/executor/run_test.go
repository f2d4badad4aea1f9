//go:build unix

package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/needs"
)

func TestWhatTheCommandSees(t *testing.T) {
	for name, value := range map[string]string{
		"PGPASSWORD": "leak", "PGHOST": "leak", "DATABASE_URL": "leak", "NATS_URL": "leak", "NATS_CREDS": "leak",
		"DAYBOOK_TOKEN": "leak", "AWS_SECRET_ACCESS_KEY": "leak", "REPORT_TOKEN": "wanted",
		"PATH": "/leak:" + os.Getenv("PATH"), "HOME": "/leak", "USER": "leak", "SHELL": "/leak",
		"LANG": "C.UTF-8", "TZ": "Europe/Berlin",
	} {
		t.Setenv(name, value)
	}
	own := ownIdentity(os.Geteuid())
	needs.That(t, own.home != "/leak", "account is in no account database")
	options := Options{
		RunID: "0192", Job: "nightly", Attempt: 2, Args: json.RawMessage(`{"scope": "all"}`),
		ScheduledAt: time.Date(2026, 3, 8, 3, 30, 0, 0, time.FixedZone("", -4*3600)),
	}
	common := []string{
		"DAYBOOK_ARGS={\"scope\": \"all\"}", "DAYBOOK_ATTEMPT=2", "DAYBOOK_JOB=nightly", "DAYBOOK_RUN_ID=0192",
		"DAYBOOK_SCHEDULED_AT=2026-03-08T07:30:00.000000Z",
		"HOME=" + own.home, "LANG=C.UTF-8", "LOGNAME=" + own.name, "TZ=Europe/Berlin", "TOKEN=wanted", "USER=" + own.name,
	}
	env := map[string]EnvValue{"TOKEN": FromEnv("REPORT_TOKEN")}
	for _, c := range []struct {
		name   string
		target Target
		more   []string
	}{
		{"argv", Target{Argv: []string{"env"}, Env: env}, []string{"PATH=" + argvPATH}},
		{"shell", Target{Shell: "exec env", Env: env}, []string{"PATH=" + shellPATH, "SHELL=/bin/sh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Run(t.Context(), c.target, options)
			got := strings.Split(strings.TrimSpace(r.Output.String()), "\n")
			got = slices.DeleteFunc(got, func(v string) bool { return strings.HasPrefix(v, "PWD=") }) // the shell's own
			want := slices.Concat(common, c.more)
			slices.Sort(got)
			slices.Sort(want)
			if r.Err != nil || !slices.Equal(got, want) {
				t.Fatalf("error %v, environment\n%q\nwant\n%q", r.Err, got, want)
			}
		})
	}
}

func TestEnvironmentOfTheTargetWins(t *testing.T) {
	r := Run(t.Context(), Target{Shell: `echo "$PATH|$HOME|$SHELL|$DAYBOOK_JOB"; pwd`, Env: map[string]EnvValue{
		"PATH": Literal("/opt/bin:/bin"), "HOME": Literal("/tmp"), "SHELL": Literal("/bin/other"),
	}}, Options{Job: "j"})
	wantOutput(t, r, "/opt/bin:/bin|/tmp|/bin/other|j\n/tmp\n")
}

func TestMissingVariableOfTheWorkerIsNamed(t *testing.T) {
	r := Run(t.Context(), Target{Shell: "true", Env: map[string]EnvValue{"TOKEN": FromEnv("NO_SUCH_VARIABLE_HERE")}}, Options{})
	wantError(t, r, TypeEnvironment, Retry)
	if !strings.Contains(r.Err.Message, "TOKEN") || !strings.Contains(r.Err.Message, "NO_SUCH_VARIABLE_HERE") {
		t.Fatalf("message %q does not name both", r.Err.Message)
	}
}

func TestStandardInput(t *testing.T) {
	args := json.RawMessage(`{"n": 1}`)
	big, _ := json.Marshal(strings.Repeat("x", 300<<10))
	for _, c := range []struct {
		name   string
		target Target
		args   json.RawMessage
		want   string
	}{
		{"arguments", Target{Argv: []string{"cat"}}, args, `{"n": 1}`},
		{"no arguments", Target{Argv: []string{"cat"}}, nil, ""},
		{"null arguments", Target{Argv: []string{"cat"}}, json.RawMessage("null"), ""},
		{"own text", Target{Shell: "cat", Stdin: "a\nb\n"}, args, "a\nb\n"},
		{"much", Target{Shell: "wc -c; echo ${DAYBOOK_ARGS-unset}"}, big, fmt.Sprintln(len(big)) + "unset\n"},
		{"unread", Target{Shell: "exec <&-; echo ok"}, big, "ok\n"},
		{"variable without arguments", Target{Shell: "echo $DAYBOOK_ARGS"}, nil, "null\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantOutput(t, Run(t.Context(), c.target, Options{Args: c.args}), c.want)
		})
	}
	wantError(t, Run(t.Context(), Target{Shell: "cat", Stdin: "x"}, Options{Args: big}), TypeInvalidTarget, Fatal)
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		target  Target
		typ     string
		verdict Verdict
		code    int
		message string
	}{
		{sh("exit 3"), TypeExitStatus, Retry, 3, "exit status 3"},
		{sh("echo no such customer >&2; exit 1"), TypeExitStatus, Retry, 1, "exit status 1: no such customer"},
		{sh("exit 75"), TypeExitStatus, Later, 75, "exit status 75"},
		{sh("exit 64"), TypeExitStatus, Fatal, 64, "exit status 64"},
		{sh("exit 65"), TypeExitStatus, Fatal, 65, "exit status 65"},
		{sh("exit 255"), TypeExitStatus, Retry, 255, "exit status 255"},
		{sh("kill -SEGV $$"), TypeSignal, Retry, -1, "ended by signal SIGSEGV"},
		{sh("kill -KILL $$"), TypeSignal, Retry, -1, "ended by signal SIGKILL, which was not sent by Daybook; perhaps the system ran out of memory"},
		{sh("exec 2>/dev/null; sh -c 'kill -KILL $$'; exit $?"), TypeExitStatus, Retry, 137, "exit status 137 (a command was ended by signal SIGKILL)"},
		{sh("no-such-command-here 2>/dev/null"), TypeCommandNotFound, Fatal, 127, "exit status 127 (command not found)"},
		{sh("/etc/passwd 2>/dev/null"), TypeCommandNotFound, Fatal, 126, "exit status 126 (command not executable)"},
		{Target{Argv: []string{"no-such-command-here"}}, TypeCommandNotFound, Fatal, -1,
			"command not found: no-such-command-here is in none of the directories of PATH=" + argvPATH},
		{Target{Argv: []string{"/no/such/program"}}, TypeCommandNotFound, Fatal, -1, "cannot run /no/such/program: no such file or directory"},
		{Target{Argv: []string{"/etc/passwd"}}, TypeCommandNotFound, Fatal, -1, "cannot run /etc/passwd: permission denied"},
		{Target{Argv: []string{"/etc"}}, TypeCommandNotFound, Fatal, -1, "cannot run /etc: is a directory"},
		{Target{Shell: "true", ShellPath: "/no/such/shell"}, TypeCommandNotFound, Fatal, -1, "cannot run /no/such/shell: no such file or directory"},
		{Target{Shell: "true", Dir: "/no/such/dir"}, TypeDirectory, Retry, -1, "cannot enter the working directory /no/such/dir: no such file or directory"},
		{Target{Argv: []string{"sh", "-c", "exit 127"}}, TypeExitStatus, Retry, 127, "exit status 127"},
	} {
		r := Run(t.Context(), c.target, Options{})
		t.Run(strings.Join(append(c.target.Argv, c.target.Shell), " "), func(t *testing.T) {
			wantError(t, r, c.typ, c.verdict)
			if r.ExitCode != c.code || strings.TrimSuffix(r.Err.Message, " (core dumped)") != c.message {
				t.Fatalf("status %d, message %q; want %d, %q", r.ExitCode, r.Err.Message, c.code, c.message)
			}
		})
	}
}

func TestProgramsAreFoundByTheCommandsOwnPathAndDirectory(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("hello", "#!/bin/sh\necho hello from \"$(pwd -P)\" \"$@\"\n")
	script("orphan", "#!/no/such/interpreter\n")
	script("plain", "echo no first line\n")
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]EnvValue{"PATH": Literal("/no/such/dir:" + dir)}
	wantOutput(t, Run(t.Context(), Target{Argv: []string{"hello", "a b", "$HOME"}, Env: map[string]EnvValue{"PATH": Literal(dir + ":/bin:/usr/bin")}, Dir: "/"}, Options{}), "hello from / a b $HOME\n")
	wantOutput(t, Run(t.Context(), Target{Argv: []string{"./hello"}, Dir: dir}, Options{}), "hello from "+real+"\n")
	for name, message := range map[string]string{"orphan": "interpreter", "plain": "#!"} {
		r := Run(t.Context(), Target{Argv: []string{name}, Env: env}, Options{})
		wantError(t, r, TypeCommandNotFound, Fatal)
		if !strings.Contains(r.Err.Message, message) {
			t.Fatalf("%s: message %q does not speak of %q", name, r.Err.Message, message)
		}
	}
}

func TestHomeThatDoesNotExistIsTheRoot(t *testing.T) {
	wantOutput(t, Run(t.Context(), Target{Shell: "pwd", Env: map[string]EnvValue{"HOME": Literal("/no/such/home")}}, Options{}), "/\n")
}

func TestOutputKeepsTheOrderOfBothStreams(t *testing.T) {
	wantOutput(t, Run(t.Context(), sh("for i in 1 2 3; do echo out $i; echo err $i >&2; done"), Options{}),
		"out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n")
}

func TestLargeOutput(t *testing.T) {
	r := Run(t.Context(), sh("i=0; echo first; head -c 1048576 /dev/zero | tr '\\0' x; echo; echo last"), Options{})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	o := r.Output
	if o.TotalBytes != 6+1<<20+1+5 || !o.Truncated || !strings.HasPrefix(o.Head, "first\nxxx") || !strings.HasSuffix(o.Tail, "xxx\nlast\n") {
		t.Fatalf("total %d, truncated %v, head %.20q, tail …%q", o.TotalBytes, o.Truncated, o.Head, o.Tail[max(0, len(o.Tail)-20):])
	}
	if len(o.Head)+len(o.Tail) != 64<<10 {
		t.Fatalf("kept %d bytes, want 64 KiB", len(o.Head)+len(o.Tail))
	}
}

func TestDurationsAreTold(t *testing.T) {
	r := Run(t.Context(), sh("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"), Options{})
	if r.Err != nil || r.Duration() <= 0 || r.UserTime+r.SystemTime <= 0 {
		t.Fatalf("error %v, wall %v, processor %v", r.Err, r.Duration(), r.UserTime+r.SystemTime)
	}
}

func TestContextThatHasEndedStartsNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "started")
	cause := errors.New("the lease is lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	r := Run(ctx, Target{Argv: []string{"touch", marker}}, Options{})
	wantError(t, r, TypeCancelled, Retry)
	if !errors.Is(r.Err, cause) || r.Err.Message != "cancelled (the lease is lost); before it started" {
		t.Fatalf("error %q", r.Err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Fatal("the command ran")
	}
}
