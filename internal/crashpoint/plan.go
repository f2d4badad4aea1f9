package crashpoint

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// plan is what the process is armed with.
type plan struct {
	point  Point
	at     int64
	action func() error
	trace  bool // every point; nothing else happens
	hits   atomic.Int64
}

// parse reads "point:hit:action", or "trace".
func parse(v string) (*plan, error) {
	if v == "trace" {
		return &plan{trace: true}, nil
	}
	parts := strings.Split(v, ":")
	if len(parts) != 3 {
		return nil, errors.New(`want "point:hit:action" or "trace"`)
	}
	point, ok := byName(parts[0])
	if !ok {
		return nil, fmt.Errorf("no point is named %q; there are %s", parts[0], strings.Join(names(), " "))
	}
	at, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil || at < 1 {
		return nil, fmt.Errorf("hit is %q; want a number from 1", parts[1])
	}
	p := &plan{point: point, at: at}
	name, arg, _ := strings.Cut(parts[2], "=")
	switch {
	case name == "sleep":
		d, err := time.ParseDuration(arg)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("sleep is %q; want a positive duration such as sleep=2s", arg)
		}
		p.action = func() error { time.Sleep(d); return nil }
	case parts[2] == "kill":
		p.action = kill
	case parts[2] == "stop":
		p.action = func() error { return signal(syscall.SIGSTOP) }
	case parts[2] == "error":
		if !point.Errs() {
			return nil, fmt.Errorf("%s cannot report an error: it is no place that fails", point)
		}
		p.action = func() error { return fmt.Errorf("%w: %s", ErrInjected, point) }
	case parts[2] == "trace":
		p.action = func() error { report(point); return nil }
	default:
		return nil, fmt.Errorf("action is %q; want kill, stop, sleep=DURATION, error or trace", parts[2])
	}
	return p, nil
}

func (p *plan) hit(point Point) error {
	switch {
	case p.trace:
		report(point)
		return nil
	case point != p.point || p.hits.Add(1) != p.at:
		return nil
	}
	report(point)
	return p.action()
}

// Reported is what a process writes to stderr, one line, at the hit that it is
// armed for.
const Reported = "crash point "

func report(p Point) { _, _ = os.Stderr.WriteString(Reported + p.String() + "\n") }

// kill does not return: nothing behind the point may happen.
func kill() error {
	_ = signal(syscall.SIGKILL)
	select {}
}

func signal(s syscall.Signal) error {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(fmt.Sprintf("crash point: %v", err)) // one may always signal oneself
	}
	return nil
}
