package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/domain"
)

func parseLease(args ...string) (domain.LeaseBudget, string, error) {
	var b domain.LeaseBudget
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	addLease(f, &b)
	err := f.Parse(args)
	return b, f.Lookup("lease").Value.String(), err
}

func TestLeaseFlag(t *testing.T) {
	b, _, err := parseLease()
	if err != nil || b != domain.DefaultLeaseBudget() {
		t.Fatalf("without the flag: %+v, %v; want the built-in budget", b, err)
	}
	b, text, err := parseLease("--lease", "publish=1s, queue-wait=2s,ack_wait=3s,max_deliver=4", "--lease=execution=5s,complete=6s,dispatch_lease=7m,execution-lease=8m")
	want := domain.LeaseBudget{Publish: time.Second, QueueWait: 2 * time.Second, AckWait: 3 * time.Second, MaxDeliver: 4,
		Execution: 5 * time.Second, Complete: 6 * time.Second, DispatchLease: 7 * time.Minute, ExecutionLease: 8 * time.Minute}
	if err != nil || b != want {
		t.Errorf("got %+v, %v", b, err)
	}
	if again, _, err := parseLease("--lease", text); err != nil || again != want {
		t.Errorf("%s, given again: %+v, %v", text, again, err)
	}
	for arg, want := range map[string]string{
		"dispatch=9s":         `"dispatch" is none of the terms publish, queue_wait`,
		"ack_wait":            "want TERM=VALUE",
		"ack_wait=5":          `ack_wait: "5" is not a duration`,
		"max_deliver=3s":      `max_deliver: "3s" is not a whole number`,
		"publish=1s,,x=4":     "want TERM=VALUE",
		"":                    "want TERM=VALUE",
		"execution_lease=1m,": "want TERM=VALUE",
	} {
		if _, _, err := parseLease("--lease", arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", arg, err, want)
		}
	}
}

// A budget that does not hold is refused before anything is started or reached.
func TestBrokenLeaseBudgetIsRefused(t *testing.T) {
	env := map[string]string{"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "NATS_URL": "nats://127.0.0.1:1"}
	for name, c := range map[string]struct {
		args, want []string
		lease      string
	}{
		"serve": {args: []string{"serve", "--lease", "queue_wait=50s"}, want: []string{"dispatch_lease 1m0s", "publish 5s", "queue_wait 50s", "max_deliver 5"}},
		"dev":   {args: []string{"dev", "--lease", "execution_lease=40s", "--data", t.TempDir()}, want: []string{"execution_lease 40s", "execution 30s", "complete 10s"}},
		"environment": {args: []string{"dev", "--data", t.TempDir()}, lease: "ack_wait=10s,queue_wait=1s",
			want: []string{"dispatch_lease + execution_lease = 2m0s", "ack_wait 10s"}},
		"no term": {args: []string{"serve", "--lease", "patience=1s"}, want: []string{`"patience" is none of the terms`}},
	} {
		var out bytes.Buffer
		a := &app{out: &out, err: &out, env: func(k string) (string, bool) {
			if k == "DAYBOOK_LEASE" {
				return c.lease, c.lease != ""
			}
			v, ok := env[k]
			return v, ok
		}}
		if code := run(t.Context(), a, c.args); code != exitUsage {
			t.Errorf("%s: exit code %d, want %d", name, code, exitUsage)
		}
		for _, w := range c.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: %s\nwant it to name %q", name, out.String(), w)
			}
		}
	}
}
