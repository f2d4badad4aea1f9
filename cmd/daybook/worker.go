package main

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/builtin"
	"github.com/daybookhq/daybook/worker"
)

func newWorker(a *app) *cobra.Command {
	var o struct {
		queues             []string
		slots              int
		allowExec          bool
		nats, creds, level string
		drain              time.Duration
	}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run the built-in executors",
		Long: `Takes runs of kind exec from the queues and runs their commands, at most --slots at a
time. Commands run with the rights of this process, so they must be allowed: --allow-exec.

The worker reaches engines over NATS (NATS_URL) and over HTTP (--url, DAYBOOK_URL); with
both, each stands in for the other. Without either it finds a running 'daybook dev'.
It drains when it is told to stop: what runs may finish.`,
		Example: `  daybook worker --allow-exec
  daybook worker --allow-exec --queue reports --queue mail --slots 4`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tradeMemory()
			level, err := logLevel(o.level)
			if err != nil {
				return err
			}
			if !o.allowExec {
				return usage("this worker could execute nothing: give --allow-exec to let it run commands")
			}
			c := worker.Config{
				NATSURL: cmp.Or(o.nats, a.firstEnv("NATS_URL")), URL: a.url, Token: a.firstEnv("DAYBOOK_TOKEN"),
				Queues: o.queues, Slots: o.slots, Version: version(), DrainTimeout: o.drain, Logger: a.newLogger(level),
			}
			if creds := cmp.Or(o.creds, a.firstEnv("NATS_CREDS")); creds != "" {
				c.NATSOptions = append(c.NATSOptions, nats.UserCredentials(creds))
			}
			if c.NATSURL == "" && c.URL == "" {
				d, err := a.findDev()
				if err != nil {
					return err
				}
				c.NATSURL, c.URL = d.NATS, d.HTTP
			}
			w := worker.New(c)
			builtin.Register(w, builtin.Options{AllowExec: o.allowExec})
			c.Logger.Info("worker is running", "worker", w.ID(), "queues", c.Queues, "slots", o.slots)
			return w.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.queues, "queue", []string{"default"}, "queue to take runs from (repeatable)")
	f.IntVar(&o.slots, "slots", defaultSlots, "runs at a time")
	f.BoolVar(&o.allowExec, "allow-exec", false, "run commands of jobs of kind exec")
	f.StringVar(&o.nats, "nats-url", "", "NATS servers, separated by commas (NATS_URL)")
	f.StringVar(&o.creds, "nats-creds", "", "NATS credentials file (NATS_CREDS)")
	f.DurationVar(&o.drain, "drain", 30*time.Second, "how long runs may go on after the worker was told to stop")
	f.StringVar(&o.level, "log-level", "info", "debug, info, warn or error")
	cmd.AddCommand(newWorkerList(a))
	return cmd
}

const defaultSlots = 16

// builtinWorker is the worker inside `daybook dev`.
func builtinWorker(natsURL, httpURL, token string, slots int, allowExec bool, log *slog.Logger) *worker.Worker {
	w := worker.New(worker.Config{NATSURL: natsURL, URL: httpURL, Token: token, Slots: slots, Version: version(), Name: "dev-" + hostname(), Logger: log})
	builtin.Register(w, builtin.Options{AllowExec: allowExec})
	return w
}
