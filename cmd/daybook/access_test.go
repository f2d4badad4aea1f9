package main

import (
	"strings"
	"testing"
)

// Who may not is told what the token lacks, and nothing was done.
func TestTokenThatMayNot(t *testing.T) {
	c := besideDatabase(t)
	c.apply(twoJobs)
	token := func(args ...string) string {
		return strings.TrimSpace(c.run(append([]string{"token", "create"}, args...)...).exits(exitOK).out)
	}
	reader, short := token("reader", "--scope", "read"), token("short", "--scope", "admin", "--expires-in", "1h")
	c.exec("UPDATE api_tokens SET expires_at = now() - interval '1 second' WHERE name = 'short'")
	revoked := token("revoked", "--scope", "admin")
	c.run("token", "revoke", "revoked").exits(exitOK)
	database := c.env["DATABASE_URL"]
	delete(c.env, "DATABASE_URL")
	c.env["DAYBOOK_URL"] = c.serve().URL

	c.env["DAYBOOK_TOKEN"] = reader
	c.settle()
	c.run("job", "list").exits(exitOK).prints("hello")
	for _, line := range []string{"job trigger hello", "job trigger hello --wait", "job pause hello --reason no", "job apply -f " + c.file("jobs.yaml", twoJobs),
		"outbox replay --all", "audit verify", "token list", "run cancel 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90"} {
		c.run(strings.Fields(line)...).exits(exitFailed, "scope", "token").lacks("token")
	}
	for name, wrong := range map[string]string{"none": "", "expired": short, "revoked": revoked, "made up": "dbk_nothing"} {
		c.env["DAYBOOK_TOKEN"] = wrong
		r := c.run("job", "list").exits(exitFailed, "DAYBOOK_TOKEN")
		if wrong != "" && strings.Contains(r.err, wrong) {
			t.Errorf("%s: the token is shown: %s", name, r.err)
		}
	}
	c.env["DATABASE_URL"] = database
	if n := c.count("SELECT count(*) FROM events WHERE category = 'run' OR type NOT IN ('JobCreated')"); n != 0 {
		t.Errorf("%d events by those who may not", n)
	}
}

// A server that has gone away is unreachable, whatever is asked of it.
func TestServerThatWentAway(t *testing.T) {
	c := besideDatabase(t)
	c.apply(twoJobs)
	delete(c.env, "DATABASE_URL")
	s := c.serve()
	c.env["DAYBOOK_URL"] = s.URL
	c.run("job", "list").exits(exitOK)
	s.Close()
	for _, line := range []string{"job list", "job trigger hello", "run list -o json", "events tail", "audit verify", "explain hello --at now", "token list"} {
		if r := c.run(strings.Fields(line)...).exits(exitUnreachable, s.URL, "is it running?"); r.out != "" {
			t.Errorf("%s printed %s", line, r.out)
		}
	}
}
