package crashpoint_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/crashpoint"
)

// child is what a process of this binary does that the tests have armed.
const child = "DAYBOOK_CRASHPOINT_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
		flag.Parse()
		// The engines mostly wait, for leases and for each other.
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	case "engine":
		os.Exit(runEngine())
	}
	crashpoint.At(crashpoint.ClaimPostCommit)
	crashpoint.At(crashpoint.ClaimPostSelect)
	if crashpoint.Err(crashpoint.ClaimPostSelect) != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

func armedChild(t *testing.T, value string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), child+"=hits", crashpoint.Var+"="+value)
	return c
}

func TestArmedProcess(t *testing.T) {
	for value, want := range map[string]string{
		"claim.post_select:1:kill":      "signal: killed",
		"claim.post_select:3:kill":      "<nil>",
		"claim.post_select:2:error":     "exit status 3",
		"claim.post_select:1:sleep=1ms": "<nil>",
		"no.such:1:kill":                "exit status 2",
	} {
		err := armedChild(t, value).Run()
		got := "<nil>"
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: the process ended with %s, want %s", value, got, want)
		}
	}
	out, err := armedChild(t, "trace").CombinedOutput()
	if want := "crash point claim.post_commit\ncrash point claim.post_select\ncrash point claim.post_select\n"; err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("trace: error %v, output %q, want it to end with %q", err, out, want)
	}
}

func TestStoppedProcessGoesOn(t *testing.T) {
	c := armedChild(t, "claim.post_select:1:stop")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	deadline := time.Now().Add(30 * time.Second)
	for !status.Stopped() {
		pid, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED|syscall.WNOHANG, nil)
		if err != nil || time.Now().After(deadline) || pid != 0 && !status.Stopped() {
			t.Fatalf("waiting for the stop: pid %d, status %v, error %v", pid, status, err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGCONT: %v", err)
	}
}

func BenchmarkUnarmed(b *testing.B) {
	for b.Loop() {
		crashpoint.At(crashpoint.ClaimPostCommit)
		if err := crashpoint.Err(crashpoint.ClaimPostSelect); err != nil {
			b.Fatal(err)
		}
	}
}
