package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what a command touches of the world.
type app struct {
	in   io.Reader
	out  io.Writer // data
	err  io.Writer // everything else
	env  func(string) (string, bool)
	data string // --data
	url  string // --url

	given    map[string]bool // of these flags, those that were on the command line
	patience time.Duration   // with an engine that does not answer; 0: the client's

	zone *time.Location // for times in tables; nil: this machine's
}

// Exit codes. They are part of the contract with scripts.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnreachable = 5
	exitRunFailed   = 6
	exitRunCanceled = 7
	exitInterrupted = 130
)

// exitError is an error that knows its exit code. A silent one has been
// reported already.
type exitError struct {
	code   int
	err    error
	silent bool
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var code int
	var e *exitError
	switch {
	case errors.As(err, &e):
		code = e.code
	case ctx.Err() != nil:
		code = exitInterrupted
	default:
		code = exitCodeOf(err)
	}
	asked := code == exitInterrupted && errors.Is(err, ctx.Err())
	if (e == nil || !e.silent) && !asked {
		fmt.Fprintf(a.err, "daybook: %s\n", plainText(err.Error()))
	}
	return code
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "daybook",
		Short: "A job scheduler that keeps the whole history of every run",
		Long: `Daybook runs jobs at their times, on request, and again when they fail. PostgreSQL
holds every change of a run as an event; NATS carries work to the workers.

Try it:
  daybook dev                                   everything in one process
  daybook import crontab FILE --apply           your crontab as jobs
  daybook job list                              what there is
  daybook run list                              what ran

Commands ask an engine over HTTP: that of --url (DAYBOOK_URL), with a token in
DAYBOOK_TOKEN, or the 'daybook dev' of --data (DAYBOOK_DATA). Without either they use the
database of DATABASE_URL, and if that is not set they find your running 'daybook dev' by
themselves. What configures a process can be set in the environment, too: --slots as
DAYBOOK_SLOTS, --output as DAYBOOK_OUTPUT.

Exit codes: 0 ok, 1 failed, 2 wrong usage or input, 3 not found, 4 conflict, 5 server
unreachable, 6 run failed, 7 run cancelled, 130 interrupted.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return a.bind(cmd)
		},
	}
	root.PersistentFlags().StringVar(&a.data, "data", "", "data directory of a local 'daybook dev' (DAYBOOK_DATA)")
	root.PersistentFlags().StringVar(&a.url, "url", "", "base URL of an engine's HTTP API (DAYBOOK_URL, with DAYBOOK_TOKEN)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v\nSee '%s --help'", err, cmd.CommandPath())
	})
	group(root, newDev(a), newServe(a), newWorker(a), newMigrate(a), newEra(a), newDoctor(a), newBench(a))
	for _, cmd := range clientCommands(a) {
		perCall(cmd)
		root.AddCommand(cmd)
	}
	return root
}

// perCall marks the flags of a command and those below it as of one call, not of
// a configuration. The environment does not set them: a command line run by a
// job finds DAYBOOK_JOB and DAYBOOK_ATTEMPT there, which are not meant for it.
func perCall(cmd *cobra.Command) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "output" {
			f.Annotations = map[string][]string{perCallMark: nil}
		}
	})
	for _, below := range cmd.Commands() {
		perCall(below)
	}
}

const perCallMark = "of one call"

// bind completes the flags from the environment, and remembers which were given.
func (a *app) bind(cmd *cobra.Command) error {
	a.given = map[string]bool{"url": cmd.Flags().Changed("url"), "data": cmd.Flags().Changed("data")}
	return bindEnv(cmd, a.env)
}

// bindEnv sets flags that were not given from the environment: --allow-exec from
// DAYBOOK_ALLOW_EXEC. Flags beat the environment, the environment beats defaults.
func bindEnv(cmd *cobra.Command, env func(string) (string, bool)) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[perCallMark]; ok {
			return
		}
		name := "DAYBOOK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		v, ok := env(name)
		if !ok || f.Changed {
			return
		}
		if err := cmd.Flags().Set(f.Name, v); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	if len(errs) > 0 {
		return usage("%v", errors.Join(errs...))
	}
	return nil
}

// firstEnv is the value of the first variable that is set and not empty.
func (a *app) firstEnv(names ...string) string {
	for _, n := range names {
		if v, ok := a.env(n); ok && v != "" {
			return v
		}
	}
	return ""
}
