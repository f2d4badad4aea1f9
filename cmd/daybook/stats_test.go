package main

import (
	"strings"
	"testing"
)

func TestStats(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.trigger("hello")
	c.execute(start(c.claim()[0]))
	c.settle()
	for _, args := range [][]string{{"queue", "stats", "--queue", "default"}, {"job", "stats", "hello"}} {
		r := c.run(args...).exits(exitOK, "waits and durations from")
		if !strings.Contains(r.out, "SCHEDULED") || !strings.Contains(r.out, "waits:     1 attempt, estimated p50 ") || !strings.Contains(r.out, "durations: none") {
			t.Errorf("%v prints\n%s", args, r.out)
		}
		got := c.run(append(args, "-o", "json")...).exits(exitOK).json()
		total := got["rates"].(map[string]any)["total"].(map[string]any)
		if total["scheduled"] != 1.0 || total["started"] != 1.0 || total["succeeded"] != 0.0 {
			t.Errorf("%v counts %v", args, total)
		}
	}
	c.run("queue", "stats", "--queue", "none").exits(exitOK, "nothing happened")
	c.run("queue", "stats", "--until", "24h").exits(exitOK, "nothing happened")
	c.run("queue", "stats", "--step", "90s").exits(exitUsage, "step", "whole minutes")
	c.run("queue", "stats", "--since", "14d").exits(exitUsage, "step", "choose longer ones")
	c.run("job", "stats", "helo").exits(exitNotFound, "hello")
}
