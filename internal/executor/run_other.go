//go:build !unix

package executor

import (
	"context"
	"runtime"
	"time"
)

type identity struct{ name, home string }

// Run refuses: process groups, signals and exit statuses as they are promised here exist on Unix only.
func Run(context.Context, Target, Options) Result {
	now := time.Now()
	return Result{ExitCode: -1, Started: now, Ended: now, Err: &Error{Type: TypeStart, Verdict: Fatal,
		Message: "commands cannot be run on " + runtime.GOOS}}
}
