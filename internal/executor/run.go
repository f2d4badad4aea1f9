//go:build unix

package executor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Run runs the target and blocks until it has ended and its output is read. It holds one operating system thread
// meanwhile. When ctx ends, the command is ended as the package documentation says; the error then wraps
// context.Cause(ctx) and is a TypeTimeout if that wraps context.DeadlineExceeded, a TypeCancelled otherwise. A command that
// had already exited keeps its own outcome.
func Run(ctx context.Context, t Target, o Options) Result {
	r := Result{ExitCode: -1, Started: time.Now()}
	r.run(ctx, t, o)
	r.Ended = time.Now()
	return r
}

func (r *Result) run(ctx context.Context, t Target, o Options) {
	if ctx.Err() != nil {
		r.Err = endedError(ctx, r.Started, "before it started")
		return
	}
	c, e := prepare(t, o)
	if e != nil {
		r.Err = e
		return
	}

	// The kernel sends the parent-death signal when the thread that started the command ends, not the process. Locked,
	// the thread lives as long as this call; it is also the one that waits below.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	stdin := input(t, o)
	p, err := start(c, stdin != nil)
	if err != nil {
		r.Err = startError(c, err)
		return
	}

	var out capture
	var pipes sync.WaitGroup
	pipes.Go(func() { _, _ = io.Copy(&out, p.out) })
	if p.in != nil {
		pipes.Go(func() {
			_, _ = p.in.Write(stdin) // a command need not read its input
			p.in.Close()
		})
	}

	exited, watched := make(chan struct{}), make(chan ending, 1)
	go func() { watched <- p.watch(ctx, exited, cmp.Or(o.Grace, DefaultGrace)) }()
	p.awaitExit()
	close(exited)
	how := <-watched
	state, err := p.reap()

	deadline := time.Now().Add(cmp.Or(o.WaitDelay, DefaultWaitDelay))
	_ = p.out.SetReadDeadline(deadline)
	if p.in != nil {
		_ = p.in.SetWriteDeadline(deadline)
	}
	pipes.Wait()
	p.out.Close()

	r.Output = out.output()
	if err != nil {
		r.Err = &Error{Type: TypeStart, Verdict: Retry, Message: fmt.Sprintf("lost sight of the command: %v", err), cause: err}
		return
	}
	r.UserTime, r.SystemTime = state.UserTime(), state.SystemTime()
	r.ExitCode = state.ExitCode()
	if how != notEnded {
		r.Err = endedError(ctx, r.Started, how.describe(cmp.Or(o.Grace, DefaultGrace)))
		return
	}
	r.Err = exitError(state.Sys().(syscall.WaitStatus), t.Shell != "", r.Output.lastLine())
}

// process is a started command with our ends of its pipes.
type process struct {
	session
	out *os.File
	in  *os.File // nil without input
}

func start(c command, withInput bool) (_ *process, err error) {
	var theirs, ours []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			for _, f := range ours {
				f.Close()
			}
		}
	}()

	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs, ours = append(theirs, outW), append(ours, outR)
	p := &process{out: outR}

	var stdin *os.File
	if withInput {
		if stdin, p.in, err = os.Pipe(); err != nil {
			return nil, err
		}
		ours = append(ours, p.in)
	} else if stdin, err = os.Open(os.DevNull); err != nil {
		return nil, err
	}
	theirs = append(theirs, stdin)

	p.session.process, err = os.StartProcess(c.path, c.argv, &os.ProcAttr{
		Dir:   c.dir,
		Env:   c.env,
		Files: []*os.File{stdin, outW, outW},
		Sys:   attributes(c.who.cred),
	})
	return p, err
}
