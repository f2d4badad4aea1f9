package crashpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPointsAreDeclaredInFull(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		if p.String() == "" || strings.Count(p.String(), ".") != 1 || seen[p.String()] {
			t.Errorf("point %d is named %q; want a name of its own, part.place", p, p)
		}
		seen[p.String()] = true
		if got, ok := byName(p.String()); !ok || got != p {
			t.Errorf("%s is found as %s", p, got)
		}
	}
}

func TestValuesThatArmNothingAreRefused(t *testing.T) {
	for v, want := range map[string]string{
		"claim.post_select":               "point:hit:action",
		"claim.post_select:1":             "point:hit:action",
		"claim.post_selekt:1:kill":        "claim.post_select",
		"claim.post_select:0:kill":        "from 1",
		"claim.post_select:x:kill":        "from 1",
		"claim.post_select:1:die":         "want kill, stop",
		"claim.post_select:1:sleep":       "positive duration",
		"claim.post_select:1:sleep=-1s":   "positive duration",
		"claim.pre_commit:1:error":        "cannot report an error",
		"claim.post_select:1:kill:please": "point:hit:action",
	} {
		if _, err := parse(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", v, err, want)
		}
	}
}

func TestOnlyTheHitThatWasAskedForFires(t *testing.T) {
	p, err := parse("claim.post_select:2:error")
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, point := range []Point{ClaimPostSelect, ReaperPostSelect, ClaimPostSelect, ClaimPostSelect} {
		got = append(got, errors.Is(p.hit(point), ErrInjected))
	}
	if want := []bool{false, false, true, false}; !equal(got, want) {
		t.Errorf("fired %v, want %v", got, want)
	}
}

func equal(a, b []bool) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// child is what a process of this binary does that the tests have armed.
const child = "DAYBOOK_CRASHPOINT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	At(ClaimPostCommit)
	At(ClaimPostSelect)
	if Err(ClaimPostSelect) != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

func armedChild(t *testing.T, value string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), child+"=1", Var+"="+value)
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
		At(ClaimPostCommit)
		if err := Err(ClaimPostSelect); err != nil {
			b.Fatal(err)
		}
	}
}
