package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestTriggerWithAKeyIsOneRun(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	first := c.trigger("hello", "--key", "k", "--reason", "by hand", "--args", `{"n": 1}`)
	r := c.run("job", "trigger", "hello", "--key", "k").exits(exitOK, `key "k" has its run already`)
	if strings.TrimSpace(r.out) != first.String() {
		t.Errorf("the second request gave %q, want %s", r.out, first)
	}
	v := c.run("job", "trigger", "hello", "--key", "k", "-o", "json").exits(exitOK).json()
	if v["created"] != false || v["run_id"] != first.String() || v["job"] != "hello" || v["key"] != "k" {
		t.Errorf("got %v", v)
	}
	run := c.run("run", "show", first.String(), "-o", "json").exits(exitOK).json()
	if run["request_reason"] != "by hand" || run["args"].(map[string]any)["n"] != 1.0 || run["origin"] != "request" {
		t.Errorf("got %v", run)
	}
	if other := c.trigger("hello"); other == first {
		t.Error("a request without a key gave the run of another")
	}
}

func TestTriggerAt(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	id := c.trigger("hello", "--at", "2031-07-01T12:00:00+02:00")
	run := c.run("run", "show", id.String(), "-o", "json").exits(exitOK).json()
	if at := instant(t, run["scheduled_at"]); !at.Equal(time.Date(2031, 7, 1, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("scheduled at %s", at)
	}
	c.run("job", "trigger", "hello", "--at", "2001-01-01").exits(exitOK, "is past")
	c.run("job", "trigger", "hello", "--at", "2999-01-01").exits(exitUsage, "more than ten years ahead")
	c.run("job", "trigger", "hello", "--at", "soon").exits(exitUsage, `--at "soon"`, "2026-03-08T07:30:00Z")
	c.run("job", "trigger", "hello", "--args", "{n: 1}").exits(exitUsage, "--args is not JSON")
	c.run("job", "trigger", "hello", "--args", `{"a": "\u0000"}`).exits(exitUsage, "args")
	c.run("job", "trigger", "hello", "--key", strings.Repeat("k", 257)).exits(exitUsage, "key")
	c.run("job", "trigger").exits(exitUsage, "takes NAME")
}

// meanwhile runs a command line beside what the test does.
func (c *cli) meanwhile(ctx context.Context, args ...string) (ended func() result) {
	_, ended = c.begun(ctx, args...)
	return ended
}

// begun is meanwhile with a look at what the command line has printed.
func (c *cli) begun(ctx context.Context, args ...string) (printed func() string, ended func() result) {
	var out output
	done := make(chan result, 1)
	go func() { done <- c.runTo(ctx, &out, args...) }()
	return out.String, func() result {
		select {
		case r := <-done:
			return r
		case <-time.After(deadline):
			c.t.Fatalf("daybook %s does not end", strings.Join(args, " "))
			return result{}
		}
	}
}

const deadline = 30 * time.Second

// awaitClaim claims until something is due.
func (c *cli) awaitClaim() domain.Run {
	c.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if runs := c.claim(); len(runs) > 0 {
			return runs[0]
		}
	}
	c.t.Fatal("no run came due")
	return domain.Run{}
}

func TestTriggerWaitExitsWithTheOutcome(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	cancel := func(r domain.Run) eventstore.Command {
		return eventstore.Command{RunID: r.ID, Do: domain.CancelRun{Reason: "enough"}}
	}
	for _, test := range []struct {
		name string
		end  func(domain.Run) eventstore.Command
		code int
		said string
	}{
		{"succeeds", succeed, exitOK, "succeeded after"},
		{"fails", fail, exitRunFailed, "attempt 1: exit_status: exit status 3"},
		{"is cancelled", cancel, exitRunCanceled, "cancelled: enough"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ended := c.meanwhile(t.Context(), "job", "trigger", "hello", "--wait")
			run := c.awaitClaim()
			if test.code != exitRunCanceled {
				c.execute(start(run))
			}
			c.execute(test.end(run))
			r := ended().exits(test.code, test.said)
			if strings.TrimSpace(r.out) != run.ID.String() {
				t.Errorf("stdout %q, want the id alone", r.out)
			}
		})
	}
	ended := c.meanwhile(t.Context(), "job", "trigger", "hello", "--wait", "-o", "json")
	run := c.awaitClaim()
	c.execute(start(run))
	c.execute(fail(run))
	v := ended().exits(exitRunFailed).json()
	if v["run_id"] != run.ID.String() || v["run"].(map[string]any)["state"] != "failed" {
		t.Errorf("got %v", v)
	}
}

func TestInterruptedWaitLeavesTheRun(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	ctx, interrupt := context.WithCancel(t.Context())
	printed, ended := c.begun(ctx, "job", "trigger", "hello", "--wait")
	run := c.awaitClaim()
	for end := time.Now().Add(deadline); printed() == "" && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
	}
	interrupt()
	r := ended().exits(exitInterrupted, "run "+run.ID.String()+" goes on")
	if strings.Contains(r.err, "context canceled") {
		t.Errorf("stderr: %s", r.err)
	}
	c.execute(start(run))
	c.execute(succeed(run))
}
