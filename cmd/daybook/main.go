// Command daybook is the scheduler: the engine, the built-in worker and the
// command line, in one binary.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules must not depend on the zones of the host
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv}, os.Args[1:])
	stop()
	os.Exit(code)
}
