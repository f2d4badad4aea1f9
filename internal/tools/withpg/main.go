// Withpg runs a command with a throw-away PostgreSQL server, whose connection
// URL it gives the command in DAYBOOK_TEST_DATABASE_URL:
//
//	withpg -- go test ./...
//	withpg -- bash
//
// Its exit status is that of the command, or 128 + n if signal n ended it. A
// server that is named in the environment already is used as it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/internal/devpg"
)

const (
	urlVar       = "DAYBOOK_TEST_DATABASE_URL"
	startTimeout = 10 * time.Minute // installing PostgreSQL may be part of it
	stopTimeout  = 10 * time.Second

	exitFailed = 1
	exitUsage  = 2
	exitNoRun  = 127 // as a shell says that there is no such command
)

func main() {
	// The command is to end with the thread that started it (see bindToParent).
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpg -- command [argument ...]")
		return exitUsage
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	env := os.Environ()
	if os.Getenv(urlVar) == "" {
		server, err := start(signals)
		if err != nil {
			fmt.Fprintf(os.Stderr, "withpg: %v\n", err)
			return exitFailed
		}
		defer stop(server)
		env = append(env, urlVar+"="+server.DSN("postgres"))
	}
	return command(args, env, signals)
}

// start starts the server; a signal meanwhile ends the attempt.
func start(signals <-chan os.Signal) (*devpg.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ctx, interrupt := context.WithCancelCause(ctx)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case s := <-signals:
			interrupt(fmt.Errorf("stopped by signal: %v", s))
		case <-done:
		}
	}()
	return devpg.Start(ctx, devpg.Options{Ephemeral: true, Log: os.Stderr})
}

func stop(server *devpg.Server) {
	if err := server.Err(); err != nil {
		fmt.Fprintf(os.Stderr, "withpg: %v\n", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "withpg: %v\n", err)
	}
}

func command(args, env []string, signals <-chan os.Signal) int {
	c := exec.Command(args[0], args[1:]...) //nolint:noctx // it gets the signals instead
	c.Env = env
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	bindToParent(c)
	if err := c.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "withpg: %v\n", err)
		return exitNoRun
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = c.Process.Signal(s)
		case err := <-ended:
			return status(err)
		}
	}
}

func status(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		fmt.Fprintf(os.Stderr, "withpg: %v\n", err)
		return exitFailed
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}
