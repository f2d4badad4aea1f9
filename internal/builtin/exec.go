// Package builtin executes the kinds that need no program of the user's: the
// handlers of the built-in worker.
package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/executor"
	"github.com/daybookhq/daybook/worker"
)

// Options say what the built-in worker may do.
type Options struct {
	AllowExec bool // run commands
}

// laterDelay is when a command that exits with EX_TEMPFAIL is run again.
const laterDelay = 30 * time.Second

// Register adds the built-in handlers that the options allow.
func Register(w *worker.Worker, o Options) {
	if o.AllowExec {
		worker.HandleFunc(w, domain.KindExec, runCommand)
	}
}

func runCommand(ctx context.Context, run *worker.RawRun) (any, error) {
	var target executor.Target
	if err := json.Unmarshal(run.Target, &target); err != nil {
		return nil, worker.Fatal(fmt.Errorf("the job's command cannot be read: %w", err))
	}
	r := executor.Run(ctx, target, executor.Options{
		RunID: run.ID, Job: run.Job, Attempt: run.Attempt, ScheduledAt: run.ScheduledAt, Args: run.Args,
	})
	o := r.Output
	run.SetOutput([]byte(o.Head), []byte(o.Tail), max(o.TotalBytes-int64(len(o.Head))-int64(len(o.Tail)), 0))
	if r.Err == nil {
		return nil, nil
	}
	err := &commandError{r.Err}
	switch r.Err.Verdict {
	case executor.Fatal:
		return nil, worker.Fatal(err)
	case executor.Later:
		return nil, worker.Later(laterDelay)
	case executor.Retry:
	}
	return nil, err
}

// commandError carries the executor's type of error to the record.
type commandError struct{ cause *executor.Error }

func (e *commandError) Error() string { return e.cause.Message }

func (e *commandError) ErrorType() string { return e.cause.Type }

func (e *commandError) Unwrap() error { return e.cause }
