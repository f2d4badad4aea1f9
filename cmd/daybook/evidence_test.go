package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/worker/protocol"
)

// The output says what was looked for with the broker, and what it was not.
func TestAuditVerify(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.settle()
	if !overHTTP {
		c.run("audit", "verify").exits(exitOK, "0 violations", "not looked for: no broker was given")
		c.env["NATS_URL"] = "nats://127.0.0.1:1"
		c.run("audit", "verify").exits(exitOK, "not looked for: ", "127.0.0.1:1")
		c.env["NATS_URL"] = c.broker()
	}
	c.run("audit", "verify").exits(exitOK, "of 0 claims that nobody has started 0 lie in the outbox, 0 with the broker, 0 nowhere")
	run := c.trigger("hello")
	claimed := c.claim()
	c.settle()
	r := c.run("audit", "verify").exits(exitFailed, "the history is not sound", "of 1 claim that nobody has started 0 lie in the outbox, 0 with the broker, 1 nowhere")
	r.prints("dispatch", run.String(), claimed[0].ClaimID.String())
	r = c.run("audit", "verify", "-o", "json").exits(exitFailed)
	hasKeys(t, r.json()["dispatch"], "asked", "unstarted_claims", "in_outbox", "with_broker", "gone")
	if strings.Contains(r.err, "nobody has started") {
		t.Errorf("beside JSON: %s", r.err)
	}
}

// broker starts one that the engines of the test's database know.
func (c *cli) broker() (url string) {
	c.t.Helper()
	s := natstest.New(c.t)
	js, err := jetstream.New(s.Conn(c.t))
	if err != nil {
		c.t.Fatal(err)
	}
	info, err := natsjs.Ensure(c.t.Context(), js, natsjs.EmbeddedTopology())
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.store.Rearm(c.t.Context(), protocol.DispatchStream, info.DispatchCreated, outbox.NewWriter("engine-1")); err != nil {
		c.t.Fatal(err)
	}
	return s.URL()
}
