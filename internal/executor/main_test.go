package executor

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asWorker makes this test binary a worker that runs the shell line given, for the test that kills the worker.
const asWorker = "EXECUTOR_TEST_WORKER_LINE"

func TestMain(m *testing.M) {
	if line := os.Getenv(asWorker); line != "" {
		fmt.Println(Run(context.Background(), Target{Shell: line}, Options{}).Err)
		return
	}
	goleak.VerifyTestMain(m)
}

// eventually polls for a state of the operating system that announces itself in no other way.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so after 20 s: %s", what)
		}
	}
}

func sh(line string) Target { return Target{Shell: line} }

func wantError(t *testing.T, r Result, typ string, v Verdict) {
	t.Helper()
	if r.Err == nil {
		t.Fatalf("no error, want %s; output:\n%s", typ, r.Output)
	}
	if r.Err.Type != typ || r.Err.Verdict != v {
		t.Fatalf("error %s/%v %q, want %s/%v; output:\n%s", r.Err.Type, r.Err.Verdict, r.Err.Message, typ, v, r.Output)
	}
}

func wantOutput(t *testing.T, r Result, want string) {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("error %s: %v; output:\n%s", r.Err.Type, r.Err, r.Output)
	}
	if got := r.Output.String(); got != want {
		t.Fatalf("output %q, want %q", got, want)
	}
}
