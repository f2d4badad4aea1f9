package worker_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

type greeting struct{ To, Text string }

func TestHandlerSeesTheRun(t *testing.T) {
	e := newEngine(t).serveNATS()
	got := make(chan worker.Run[greeting], 1)
	w := e.worker(nil)
	worker.Handle(w, kind, func(_ context.Context, run worker.Run[greeting]) error {
		got <- run
		return nil
	})
	e.start(w)
	r := e.run("a", `{"To":"ada","Text":"hello <b>"}`)
	if end := e.ended(r); end != "complete" {
		t.Fatalf("ended with %s", end)
	}
	run := <-got
	if run.Args != (greeting{"ada", "hello <b>"}) {
		t.Errorf("args %+v", run.Args)
	}
	if run.ID != r.claim.RunID.String() || run.Job != "job-a" || run.JobID == "" || run.Kind != kind || run.Origin != "request" {
		t.Errorf("identity %+v", run)
	}
	if run.Attempt != 1 || run.MaxAttempts != 5 || !run.ScheduledAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) || !run.Deadline.IsZero() {
		t.Errorf("attempt %+v", run)
	}
}

func TestExecutesThenCompletesThenAcks(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	worker.HandleResult(w, kind, func(context.Context, worker.Run[struct{}]) (map[string]string, error) {
		e.note("handler a")
		return map[string]string{"html": "<p>&amp;</p>"}, nil
	})
	e.start(w)
	r := e.run("a", `{}`)
	e.awaitNote("msg +ACK")
	want := []string{"start a nats", "handler a", "complete a nats", "msg +ACK"}
	if got := e.noted(); !reflect.DeepEqual(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	if string(r.done.Result) != `{"html":"<p>&amp;</p>"}` {
		t.Errorf("result %s", r.done.Result)
	}
	e.awaitStored(0)
}

// Runs that take no time at all are told from those of which nothing is known.
func TestOutcomesSayHowLongTheHandlerTook(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	worker.Handle(w, kind, func(_ context.Context, run worker.Run[struct{ Fail bool }]) error {
		if run.Args.Fail {
			return errors.New("no")
		}
		return nil
	})
	e.start(w)
	good, bad := e.run("good", `{}`), e.run("bad", `{"Fail":true}`)
	if e.ended(good) != "complete" || good.done.Ran < protocol.Duration(time.Millisecond) {
		t.Errorf("%s after %v", good.end, good.done.Ran)
	}
	if e.ended(bad) != "fail" || bad.fail.Ran < protocol.Duration(time.Millisecond) {
		t.Errorf("%s after %v", bad.end, bad.fail.Ran)
	}
}

func TestLostStartReplyIsAskedAgainWithTheSameToken(t *testing.T) {
	e := newEngine(t).serveNATS().serveHTTP()
	var lost atomic.Bool
	e.setAnswered(func(via, op string, _, reply []byte) []byte {
		if op == protocol.OpStart && lost.CompareAndSwap(false, true) {
			return nil
		}
		return reply
	})
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { e.note("handler"); return nil })
	e.start(w)
	r := e.run("a", `{}`)
	if end := e.ended(r); end != "complete" {
		t.Fatalf("ended with %s", end)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// A poll may have brought the same run; that delivery has a token of its own.
	var via []string
	for i, s := range e.starts {
		if s == e.starts[0] {
			via = append(via, e.startedVia[i])
		}
	}
	if want := []string{"nats", "http"}; !reflect.DeepEqual(via, want) {
		t.Errorf("the start went over %q, want %q: %+v", via, want, e.starts)
	}
}

func TestErrorReplyIsNoRefusal(t *testing.T) {
	e := newEngine(t).serveNATS()
	var failures atomic.Int64
	failures.Store(3)
	e.setIntercept(func(_, op string, _ []byte) ([]byte, bool) {
		if op == protocol.OpPresence || failures.Add(-1) < 0 {
			return nil, false
		}
		e.note("unavailable %s", op)
		return errorReply(protocol.CodeUnavailable), true
	})
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	e.start(w)
	if end := e.ended(e.run("a", `{}`)); end != "complete" {
		t.Fatalf("ended with %s", end)
	}
	if n := e.count("unavailable start"); n != 3 {
		t.Errorf("%d starts met the outage, want 3", n)
	}
}

func TestRefusedStartIsAckedAndNotExecuted(t *testing.T) {
	for _, code := range []protocol.RefusalCode{
		protocol.StaleClaim, protocol.AlreadyStarted, protocol.Terminal, protocol.Cancelled, protocol.UnknownRun, protocol.LeaseOver,
	} {
		t.Run(string(code), func(t *testing.T) {
			e := newEngine(t).serveNATS()
			e.setIntercept(func(_, op string, body []byte) ([]byte, bool) {
				if op != protocol.OpStart {
					return nil, false
				}
				return each(e, body, func(protocol.StartItem) protocol.StartResult {
					return protocol.StartResult{Status: protocol.StatusRefused, Code: code}
				}), true
			})
			w := e.worker(nil)
			worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { e.note("handler"); return nil })
			stop := e.start(w)
			e.run("a", `{}`)
			e.awaitNote("msg +ACK")
			if err := stop(); err != nil {
				t.Error(err)
			}
			if n := e.count("handler"); n != 0 {
				t.Errorf("executed %d times", n)
			}
			e.awaitStored(0)
		})
	}
}

func TestUnauthorizedStopsTheWorkerAndKeepsTheMessage(t *testing.T) {
	for name, reply := range map[string]func(e *engine, body []byte) []byte{
		"refusal": func(e *engine, body []byte) []byte {
			return each(e, body, func(protocol.StartItem) protocol.StartResult {
				return protocol.StartResult{Status: protocol.StatusRefused, Code: protocol.Unauthorized}
			})
		},
		"error": func(*engine, []byte) []byte { return errorReply(protocol.CodeUnauthorized) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t).serveNATS()
			e.setIntercept(func(_, op string, body []byte) ([]byte, bool) {
				if op != protocol.OpStart {
					return nil, false
				}
				return reply(e, body), true
			})
			w := e.worker(nil)
			worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { e.note("handler"); return nil })
			done := make(chan error, 1)
			go func() { done <- w.Run(t.Context()) }()
			e.run("a", `{}`)
			select {
			case err := <-done:
				if !errors.Is(err, worker.ErrUnauthorized) {
					t.Errorf("Run returned %v, want ErrUnauthorized", err)
				}
			case <-time.After(patience):
				t.Fatal("Run goes on")
			}
			e.sync()
			if n := e.count("msg +ACK") + e.count("handler"); n != 0 || e.stored() != 1 {
				t.Errorf("acked or executed: %q", e.noted())
			}
		})
	}
}

func TestLostCompleteReplyIsAskedAgainAndAcked(t *testing.T) {
	e := newEngine(t).serveNATS()
	var lost atomic.Bool
	e.setAnswered(func(_, op string, _, reply []byte) []byte {
		if op == protocol.OpComplete && lost.CompareAndSwap(false, true) {
			return nil
		}
		return reply
	})
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { e.note("handler"); return nil })
	e.start(w)
	e.run("a", `{}`)
	e.awaitNote("msg +ACK")
	if c, h := e.count("complete"), e.count("handler"); c != 2 || h != 1 {
		t.Errorf("%d completes and %d executions, want 2 and 1: %q", c, h, e.noted())
	}
}

type coded struct{}

func (coded) Error() string     { return "exit status 3" }
func (coded) ErrorType() string { return "exit_status" }

// What a handler returns decides what is reported, and all of it is acked.
func TestHandlerReturns(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		args    string
		handler func() error
		check   func(t *testing.T, end string, r *fakeRun)
	}{
		"error": {`{}`, func() error { return fmt.Errorf("send: %w", boom) }, func(t *testing.T, end string, r *fakeRun) {
			if end != "fail" || !r.fail.Retryable || r.fail.Error.Message != "send: boom" || r.fail.RetryAfter != 0 {
				t.Errorf("%s %+v", end, r.fail)
			}
		}},
		"error of a type": {`{}`, func() error { return fmt.Errorf("run: %w", coded{}) }, func(t *testing.T, end string, r *fakeRun) {
			if r.fail.Error.Type != "exit_status" || r.fail.Error.Message != "run: exit status 3" {
				t.Errorf("%+v", r.fail.Error)
			}
		}},
		"fatal": {`{}`, func() error { return fmt.Errorf("wrapped: %w", worker.Fatal(boom)) }, func(t *testing.T, end string, r *fakeRun) {
			if end != "fail" || r.fail.Retryable || r.fail.Error.Message != "wrapped: boom" {
				t.Errorf("%s %+v", end, r.fail)
			}
		}},
		"later": {`{}`, func() error { return worker.Later(90 * time.Second) }, func(t *testing.T, end string, r *fakeRun) {
			if end != "snooze" || r.snooze.Delay.Std() != 90*time.Second {
				t.Errorf("%s %+v", end, r.snooze)
			}
		}},
		"retry after": {`{}`, func() error { return worker.RetryAfter(boom, time.Minute) }, func(t *testing.T, end string, r *fakeRun) {
			if end != "fail" || !r.fail.Retryable || r.fail.RetryAfter.Std() != time.Minute {
				t.Errorf("%s %+v", end, r.fail)
			}
		}},
		"panic": {`{}`, func() error { panic("no \x00 such luck") }, func(t *testing.T, end string, r *fakeRun) {
			f := r.fail
			if end != "fail" || !f.Retryable || f.Error.Type != "panic" || f.Error.Message != "panic: no \uFFFD such luck" || !strings.Contains(f.Error.Stack, "TestHandlerReturns") {
				t.Errorf("%s %+v", end, f)
			}
		}},
		"goexit": {`{}`, func() error { runtime.Goexit(); return nil }, func(t *testing.T, end string, r *fakeRun) {
			if end != "fail" || !r.fail.Retryable || r.fail.Error.Type != "exited" {
				t.Errorf("%s %+v", end, r.fail)
			}
		}},
		"args that do not fit": {`{"To":7}`, func() error { return errors.New("must not run") }, func(t *testing.T, end string, r *fakeRun) {
			if end != "fail" || r.fail.Retryable || r.fail.Error.Type != "bad_args" || !strings.Contains(r.fail.Error.Message, "job-") {
				t.Errorf("%s %+v", end, r.fail)
			}
		}},
		"long error": {`{}`, func() error { return errors.New(strings.Repeat("ö", protocol.MaxErrorBytes)) }, func(t *testing.T, end string, r *fakeRun) {
			if n := len(r.fail.Error.Message); n > protocol.MaxErrorBytes || n < protocol.MaxErrorBytes-8 || strings.Contains(r.fail.Error.Message, "\uFFFD") {
				t.Errorf("%d bytes", n)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t).serveNATS()
			w := e.worker(nil)
			worker.Handle(w, kind, func(context.Context, worker.Run[greeting]) error { return c.handler() })
			e.start(w)
			r := e.run("a", c.args)
			end := e.ended(r)
			e.awaitNote("msg +ACK")
			c.check(t, end, r)
		})
	}
}

func TestRawHandlerGetsTargetAndKeepsOutput(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	worker.HandleFunc(w, kind, func(_ context.Context, run *worker.RawRun) (any, error) {
		run.SetOutput([]byte("head"), []byte("\xff\x00"), 12)
		if string(run.Args) == `{"fail":true}` {
			return nil, errors.New("exit 1")
		}
		return map[string]any{"target": run.Target}, nil
	})
	e.start(w)
	good, bad := e.run("good", `{}`), e.run("bad", `{"fail":true}`)
	if e.ended(good) != "complete" || string(good.done.Result) != `{"target":{"argv":["true"]}}` {
		t.Errorf("good: %s %s", good.end, good.done.Result)
	}
	if e.ended(bad) != "fail" || bad.fail.Error.Message != "exit 1" {
		t.Errorf("bad: %s %+v", bad.end, bad.fail)
	}
	for _, o := range []*protocol.Output{good.done.Output, bad.fail.Output} {
		if o == nil {
			t.Fatal("output lost")
		}
		if head, tail, err := o.Bytes(); err != nil || string(head) != "head" || string(tail) != "\xff\x00" || o.Truncated != 12 {
			t.Errorf("output %+v %v", o, err)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	var r worker.RawRun
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	big := strings.Repeat("h", 100_000)
	worker.HandleFunc(w, kind, func(_ context.Context, run *worker.RawRun) (any, error) {
		run.SetOutput([]byte(big+"!"), []byte("!"+big), 5)
		return nil, nil
	})
	e.start(w)
	run := e.run("a", "")
	e.ended(run)
	o := run.done.Output
	if len(o.Head)+len(o.Tail) != protocol.MaxOutputBytes || strings.Contains(o.Head+o.Tail, "!") || o.Truncated != int64(5+2*100_001-protocol.MaxOutputBytes) {
		t.Errorf("%d+%d bytes, %d truncated", len(o.Head), len(o.Tail), o.Truncated)
	}
	r.SetOutput([]byte("a"), []byte(big), 0) // one long side takes the room the other leaves
}

func TestUnkeepableResultsFailWithoutRetry(t *testing.T) {
	for name, result := range map[string]any{
		"not JSON":  func() {},
		"too large": strings.Repeat("x", protocol.MaxResultBytes),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t).serveNATS()
			w := e.worker(nil)
			worker.HandleFunc(w, kind, func(context.Context, *worker.RawRun) (any, error) { return result, nil })
			e.start(w)
			r := e.run("a", "")
			if e.ended(r) != "fail" || r.fail.Retryable || r.fail.Error.Type != "bad_result" {
				t.Errorf("%s %+v", r.end, r.fail)
			}
		})
	}
}
