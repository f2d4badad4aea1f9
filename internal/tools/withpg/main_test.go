//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("WITHPG_TEST_MAIN") != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func withpg(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), "WITHPG_TEST_MAIN=1", urlVar+"=")
	return c
}

func TestExitStatus(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want int
	}{
		{nil, 2},
		{[]string{"--", "sh", "-c", "exit 7"}, 7},
		{[]string{"sh", "-c", "kill -9 $$"}, 137},
		{[]string{"--", "/no/such/program"}, 127},
	} {
		c := withpg(tt.args...)
		c.Env = append(c.Env, urlVar+"=postgres://given@/db") // used as it is: quick
		err := c.Run()
		if got := c.ProcessState.ExitCode(); got != tt.want {
			t.Errorf("withpg %q: status %d (%v), want %d", tt.args, got, err, tt.want)
		}
	}
}

func TestServerIsThereAndGone(t *testing.T) {
	out, err := withpg("--", "sh", "-c", `echo "$`+urlVar+`"; cat </dev/null`).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, query, ok := strings.Cut(string(out), "?host=")
	socket, _, _ := strings.Cut(query, "&")
	if !ok || !strings.HasPrefix(string(out), "postgres://postgres@/postgres?") {
		t.Fatalf("URL %q", out)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", filepath.Dir(socket), err)
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	c := withpg("--", "sh", "-c", `trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	timeout := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer timeout.Stop()
	r := bufio.NewReader(stdout)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(r)
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); string(rest) != "got\n" || got != 3 {
		t.Errorf("%q, status %d", rest, got)
	}
}
