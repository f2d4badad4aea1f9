// Package crashpoint has named places in the program at which a test can make
// the process die, stop, wait or see an error. They are part of every binary, so
// that what is tested is what is shipped; unarmed a point costs less than a
// nanosecond.
//
// One point is armed for the life of a process, by its environment:
//
//	DAYBOOK_CRASHPOINT=claim.post_commit:1:kill     SIGKILL at the first hit
//	DAYBOOK_CRASHPOINT=reaper.post_select:2:stop    SIGSTOP at the second; SIGCONT goes on
//	DAYBOOK_CRASHPOINT=relay.pre_delete:1:sleep=2s
//	DAYBOOK_CRASHPOINT=claim.post_select:1:error    only where the place can report one
//	DAYBOOK_CRASHPOINT=trace                        each hit of any point, as a line on stderr
//
// A value that cannot be read, or that names no point, ends the process at once
// with status 2: a test that arms nothing would pass.
package crashpoint

import (
	"errors"
	"fmt"
	"os"
)

// Var names the environment variable that arms a point.
const Var = "DAYBOOK_CRASHPOINT"

// armed is set before main begins and never again, so it is read without
// synchronisation. Nil is the ordinary case.
var armed *plan

func init() { //nolint:gochecknoinits // points are hit before any main could arm them
	v := os.Getenv(Var)
	if v == "" {
		return
	}
	p, err := parse(v)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s=%s: %v\n", Var, v, err)
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "%s=%s: this process is going to misbehave on purpose\n", Var, v)
	armed = p
}

// ErrInjected is what Err returns at the hit it is armed for.
var ErrInjected = errors.New("injected at a crash point")

// At marks a place where the process may die, stop or wait.
func At(p Point) {
	if armed != nil {
		_ = armed.hit(p)
	}
}

// Err marks a place that can also report an error: besides what At does, it
// returns one that wraps ErrInjected if the point is armed with "error".
func Err(p Point) error {
	if armed != nil {
		return armed.hit(p)
	}
	return nil
}
