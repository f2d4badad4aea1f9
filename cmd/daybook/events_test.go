package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/pgtest"
)

func TestEventsTail(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	id := c.trigger("hello")
	c.work(succeed)
	all := c.run("events", "tail").exits(exitOK).jsonl()
	var types []string
	for _, e := range all {
		hasKeys(t, e, "position", "era", "category", "stream_id", "version", "type", "at", "actor", "data")
		instant(t, e["at"])
		types = append(types, e["type"].(string))
	}
	if got := strings.Join(types, " "); got != "JobCreated JobCreated RunScheduled RunClaimed RunStarted RunSucceeded" {
		t.Errorf("events %s", got)
	}
	after := fmt.Sprintf("%.0f", all[3]["position"])
	if rest := c.run("events", "tail", "--after", after).exits(exitOK).jsonl(); len(rest) != 2 || rest[0]["type"] != "RunStarted" {
		t.Errorf("after position %s: %v", after, rest)
	}
	if none := c.run("events", "tail", "--after", "end").exits(exitOK); none.out != "" {
		t.Errorf("after the end: %s", none.out)
	}
	for _, name := range []string{"RunClaimed", "run-claimed", "daybook.run.claimed.v1"} {
		if of := c.run("events", "tail", "--type", name).exits(exitOK).jsonl(); len(of) != 1 || of[0]["type"] != "RunClaimed" {
			t.Errorf("--type %s: %v", name, of)
		}
	}
	if of := c.run("events", "tail", "--type", "RunClaimed,JobCreated").exits(exitOK).jsonl(); len(of) != 3 {
		t.Errorf("two types: %v", of)
	}
	if of := c.run("events", "tail", "--stream", id.String(), "--limit", "3").exits(exitOK).jsonl(); len(of) != 3 || of[0]["type"] != "RunScheduled" {
		t.Errorf("of one run: %v", of)
	}
	if whole := c.run("events", "tail", "-o", "json").exits(exitOK).json()["events"].([]any); len(whole) != len(all) {
		t.Errorf("%d events in one document", len(whole))
	}
	if none := c.run("events", "tail", "-o", "json", "--type", "RunFailed").exits(exitOK).json()["events"].([]any); len(none) != 0 {
		t.Errorf("got %v", none)
	}
	c.run("events", "tail", "-o", "table").exits(exitOK).prints("RunStarted", "attempt 1 on w-1")
	if out := c.run("events", "tail", "-o", "id", "--type", "RunSucceeded").exits(exitOK).out; out != id.String()+"/4\n" {
		t.Errorf("ids: %q", out)
	}
	for _, args := range [][]string{{"--after", "x"}, {"--after", "-3"}, {"--type", "RunExploded"}, {"--stream", "hello"}, {"--limit", "-1"}, {"--follow", "-o", "json"}} {
		c.run(append([]string{"events", "tail"}, args...)...).exits(exitUsage, args[0])
	}
}

func TestEventsFollow(t *testing.T) {
	c := newCLI(t)
	c.testFollow(t, func() {})
}

// The database server dies and comes back while somebody follows.
func TestEventsFollowThroughARestart(t *testing.T) {
	cluster := pgtest.Durable(t, nil)
	c := newCLIOn(t, cluster.New(t))
	c.testFollow(t, func() {
		cluster.Crash(t)
		cluster.Start(t)
	})
}

// testFollow follows while runs are made, and before each something happens.
// Every event comes, one time.
func (c *cli) testFollow(t *testing.T, meanwhile func()) {
	t.Helper()
	c.apply(twoJobs)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		a := &app{in: strings.NewReader(""), out: write, err: io.Discard, env: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
		ended <- run(ctx, a, []string{"events", "tail", "--follow", "-o", "id"})
		_ = write.Close()
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		var b strings.Builder
		buf := make([]byte, 1)
		for {
			if _, err := read.Read(buf); err != nil {
				return
			}
			if buf[0] == '\n' {
				lines <- b.String()
				b.Reset()
				continue
			}
			b.WriteByte(buf[0])
		}
	}()
	next := func() string {
		t.Helper()
		select {
		case line := <-lines:
			return line
		case <-time.After(deadline):
			t.Fatal("no event came")
			return ""
		}
	}
	next()
	next() // what there was
	for range 3 {
		meanwhile()
		id := c.trigger("hello")
		if line := next(); line != id.String()+"/1" {
			t.Errorf("followed %s, want the run just made, %s", line, id)
		}
	}
	interrupt()
	select {
	case code := <-ended:
		if code != exitInterrupted {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(deadline):
		t.Fatal("does not end")
	}
	for range lines {
	}
}

// away is a log whose database goes away between its pages.
type away struct {
	pages []client.Event
	tries int
	asked []int64
}

func (l *away) Events(_ context.Context, q client.EventQuery) (client.EventPage, error) {
	l.tries++
	if l.tries == 2 || l.tries == 3 {
		return client.EventPage{}, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	from := q.From.After
	l.asked = append(l.asked, from)
	return client.EventPage{Events: l.pages[from : from+1], Next: client.Place{After: from + 1}}, nil
}

func TestFollowingGoesOnWhereItWas(t *testing.T) {
	l := &away{pages: []client.Event{{Position: 1}, {Position: 2}, {Position: 3}}}
	var out, said strings.Builder
	a := &app{out: &out}
	o := tail{follow: true, limit: 3, log: slog.New(slog.NewTextHandler(&said, nil))}
	if err := o.read(t.Context(), l, client.EventQuery{}, &eventWriter{a: a, out: asLines}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || !slices.Equal(l.asked, []int64{0, 1, 2}) {
		t.Errorf("wrote %d events of the places %v, want three of 0, 1, 2:\n%s", n, l.asked, out.String())
	}
	if !strings.Contains(said.String(), "cannot be reached") {
		t.Errorf("said %q", said.String())
	}
	once := tail{limit: 3, log: o.log} // without --follow, an outage is the answer
	if err := once.read(t.Context(), &away{pages: l.pages, tries: 1}, client.EventQuery{}, &eventWriter{a: a, out: asLines}); err == nil {
		t.Error("no error")
	}
}

// The list of types is for the help and for checking flags; the domain decides.
func TestEventTypesAreThoseOfTheDomain(t *testing.T) {
	for _, name := range eventTypes {
		if got, ok := eventType(name); !ok || got != name {
			t.Errorf("%s is taken for %q", name, got)
		}
	}
	for _, name := range goldenEvents(t) {
		if _, ok := eventType(name); !ok {
			t.Errorf("%s is not among the types", name)
		}
	}
}
