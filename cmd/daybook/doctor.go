package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
)

// verdict is the result of a check.
type verdict string

const (
	fine    verdict = "ok"
	doubt   verdict = "warn"
	failing verdict = "fail"
)

// finding is what a check found and what to do about it.
type finding struct {
	Check  string  `json:"check"`
	Status verdict `json:"status"`
	Detail string  `json:"detail"`
	Advice string  `json:"advice,omitempty"`
}

type doctorOptions struct {
	replicas int
	lease    domain.LeaseBudget
}

func newDoctor(a *app) *cobra.Command {
	var o doctorOptions
	var out format
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation and say what to do",
		Long: `Looks at everything that runs need, from PostgreSQL's binaries to the workers, and says of
each whether it is in order and what to do if not. It changes nothing. The exit code is 1 if
anything fails.

With --url it asks the engine for what the database tells, with a token that has the scope
read; beside the database it looks itself. For a NATS cluster give what 'daybook serve' was given: --nats-replicas and --lease.`,
		Example: `  daybook doctor
  daybook doctor --url https://daybook.example
  DATABASE_URL=postgres://daybook_engine@db/daybook NATS_URL=nats://n1:4222 daybook doctor`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{a: a, options: o}
			d.examine(cmd.Context())
			return a.writeFindings(out, d.findings)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.replicas, "nats-replicas", 0, "replicas of the streams (default 1 for 'daybook dev', otherwise 3)")
	addLease(f, &o.lease)
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) writeFindings(out format, all []finding) error {
	failed := 0
	for _, f := range all {
		if f.Status == failing {
			failed++
		}
	}
	err := write(a, out, list[finding]{
		items: all,
		whole: map[string]any{"ok": failed == 0, "checks": all},
		id:    func(f finding) string { return f.Check + " " + string(f.Status) },
		columns: []column[finding]{
			{title: "CHECK", text: func(f finding) string { return f.Check }},
			{title: "STATUS", text: func(f finding) string { return string(f.Status) }},
			{title: "DETAIL", full: true, text: func(f finding) string { return because(f.Detail, f.Advice) }},
		},
	})
	if err != nil || failed == 0 {
		return err
	}
	return &exitError{code: exitFailed, err: fmt.Errorf("%s failed", count(failed, "check"))}
}

// doctor goes through the checks in the order in which they need each other.
type doctor struct {
	a        *app
	options  doctorOptions
	findings []finding
}

func (d *doctor) note(check string, v verdict, detail, advice string) {
	d.findings = append(d.findings, finding{Check: check, Status: v, Detail: detail, Advice: advice})
}

// checkTimeout bounds one check against something that does not answer.
const checkTimeout = 5 * time.Second

func (d *doctor) examine(ctx context.Context) {
	d.binaries()
	d.dataDirectory()
	t, ok := d.deployment()
	if !ok {
		return
	}
	if t.http.URL != "" {
		d.engine(ctx, t)
	}
	if t.database.DSN == "" && t.http.URL != "" {
		d.broker(ctx, client.Options{NATS: d.a.firstEnv("NATS_URL"), NATSCreds: d.a.firstEnv("NATS_CREDS")})
		return
	}
	if c := d.database(ctx, t.database); c != nil {
		defer c.Close()
		d.rows(ctx, c)
	}
	d.broker(ctx, t.database)
}

// bounded runs a check with a time of its own.
func bounded(ctx context.Context, check func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	check(ctx)
}
