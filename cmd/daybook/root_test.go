package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		if below.Hidden { // for this program, not for people
			continue
		}
		all = append(all, commands(below)...)
	}
	return all
}

// Whoever asks for help gets an explanation, and examples that parse.
func TestEveryCommandExplainsItself(t *testing.T) {
	root := newRoot(&app{env: os.LookupEnv})
	for _, cmd := range commands(root) {
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s: no explanation", cmd.CommandPath())
		}
		examples := 0
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if !strings.HasPrefix(line, "  ") { // prose
				continue
			}
			if _, args, found := strings.Cut(line, "daybook "); found {
				examples++
				checkExample(t, cmd.CommandPath(), args)
			}
		}
		if examples == 0 && cmd.Name() != "help" {
			t.Errorf("%s: no example", cmd.CommandPath())
		}
	}
}

// checkExample sees to it that there is such a command with such flags. What
// stands behind two blanks explains the line.
func checkExample(t *testing.T, path, line string) {
	t.Helper()
	line, _, _ = strings.Cut(strings.TrimSpace(line), "  ")
	target, rest, err := newRoot(&app{env: os.LookupEnv}).Find(shellWords(line))
	if err == nil {
		err = target.ParseFlags(rest)
	}
	if err == nil {
		err = target.ValidateArgs(target.Flags().Args())
	}
	if err == nil && target.HasParent() && target.HasSubCommands() && len(target.Flags().Args()) > 0 {
		err = unknownCommand(target, target.Flags().Arg(0))
	}
	if err != nil {
		t.Errorf("%s: example %q: %v", path, line, err)
	}
}

// shellWords splits a line as a shell does, as far as the examples need.
func shellWords(line string) []string {
	var words []string
	var b strings.Builder
	quoted, any := false, false
	for _, r := range strings.TrimSpace(line) {
		switch {
		case r == '\'':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				words = append(words, b.String())
			}
			b.Reset()
			any = false
		default:
			b.WriteRune(r)
			any = true
		}
	}
	if any {
		words = append(words, b.String())
	}
	return words
}

func TestWrongCommandLines(t *testing.T) {
	c := offline(t)
	for line, said := range map[string]string{
		"foo":                    `unknown command "foo" of 'daybook'`,
		"jb":                     "did you mean job?",
		"job lst":                "did you mean list?",
		"job list extra":         "takes no arguments, not 1 argument",
		"run show":               "takes ID, not 0 arguments",
		"job list --nope":        "unknown flag: --nope",
		"import crontab":         "takes FILE",
		"serve --roles x":        "no database",
		"migrate sideways":       "unknown command",
		"version -o yaml":        "want table, wide, json, jsonl or id",
		"worker":                 "--allow-exec",
		"dev --http 7788":        "want HOST:PORT",
		"dev --log-level chatty": "--log-level chatty",
	} {
		c.run(strings.Fields(line)...).exits(exitUsage, said)
	}
	c.run().exits(exitOK).prints("Usage:")
	c.run("job").exits(exitOK).prints("Available Commands:")
	c.run("completion", "bash").exits(exitOK).prints("bash completion")
}

func TestUnreachableServer(t *testing.T) {
	c := offline(t)
	c.run("job", "list").exits(exitUnreachable, "no running 'daybook dev' found")

	c.env["DAYBOOK_URL"] = "http://127.0.0.1:1"
	for _, line := range []string{"job list", "run list", "events tail --follow", "job trigger x --wait", "audit verify", "doctor"} {
		r := c.run(strings.Fields(line)...)
		if line == "doctor" {
			r.exits(exitFailed).prints("http api", "http://127.0.0.1:1 cannot be reached")
			continue
		}
		r.exits(exitUnreachable, "http://127.0.0.1:1 cannot be reached", "connection refused", "DAYBOOK_URL")
	}

	c.env = map[string]string{"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none?sslmode=disable"}
	for _, line := range []string{"job list", "run list", "events tail", "job trigger x", "queue list", "outbox status", "worker list"} {
		c.run(strings.Fields(line)...).exits(exitUnreachable, "connect to database")
	}

	dir := t.TempDir()
	gone := devFile{PID: 1 << 22, Data: dir}
	if err := gone.write(dir); err != nil {
		t.Fatal(err)
	}
	c.run("--data", dir, "job", "list").exits(exitUnreachable, "is not running any more")
}

func TestDataDirectoryBeatsTheEnvironment(t *testing.T) {
	c := besideDatabase(t)
	c.apply(twoJobs)
	dir := t.TempDir()
	d := devFile{PID: os.Getpid(), Database: c.env["DATABASE_URL"] + "?sslmode=disable&connect_timeout=5", Data: dir}
	if strings.Contains(c.env["DATABASE_URL"], "?") {
		d.Database = c.env["DATABASE_URL"] + "&connect_timeout=5"
	}
	if err := d.write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, devFileName))
	if err != nil || !bytes.Contains(text, []byte("&connect_timeout=5")) {
		t.Errorf("%v, %s: the connection string cannot be copied from the file", err, text)
	}
	c.env["DATABASE_URL"] = "postgres://nobody@127.0.0.1:1/none"
	c.run("job", "list").exits(exitUnreachable)
	c.run("--data", dir, "job", "list").exits(exitOK).prints("hello")
	c.env["DAYBOOK_DATA"] = dir
	c.run("job", "list").exits(exitOK).prints("hello")
}

// A command line that a job runs finds variables about the job in its
// environment, which are not settings.
func TestVariablesOfARunAreNoFlags(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.trigger("hello")
	c.settle()
	c.env["DAYBOOK_JOB"], c.env["DAYBOOK_ATTEMPT"], c.env["DAYBOOK_ARGS"], c.env["DAYBOOK_KEY"] = "other", "7", "{", "k"
	c.run("run", "list").exits(exitOK).prints("hello")
	c.trigger("hello")
	c.env["DAYBOOK_OUTPUT"] = "id"
	if out := c.run("job", "list").exits(exitOK).out; out != "hello\nnightly-report\n" {
		t.Errorf("DAYBOOK_OUTPUT=id printed %q", out)
	}
}

// An error that has no code of its own is a failure, not an unreachable server.
func TestFilesThatCannotBeUsed(t *testing.T) {
	c := offline(t)
	file := c.file("file", "not a directory")
	c.run("--data", file, "dev").exits(exitFailed, "choose another with --data")
	c.run("--data", file, "job", "list").exits(exitFailed, file)
}

// The likely reason for a table or column that is not there is another version
// of the schema.
func TestOldSchemaIsNamed(t *testing.T) {
	c := besideDatabase(t)
	c.exec("DROP TABLE run_summaries CASCADE")
	if r := c.run("run", "list").exits(exitFailed, "run_summaries"); strings.Contains(r.err, "migrate up") {
		t.Errorf("the schema's version is the binary's: %s", r.err)
	}
	c.exec("DELETE FROM goose_db_version WHERE version_id > 1")
	c.run("run", "list").exits(exitFailed, "run_summaries", "the database schema is at version 1, this binary needs", "run 'daybook migrate up'")
	c.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
	c.run("run", "list").exits(exitFailed, "version 999", "use a newer daybook")
}

func TestVersion(t *testing.T) {
	c := offline(t)
	c.run("version").exits(exitOK).prints("daybook ", "schema ")
	hasKeys(t, c.run("version", "-o", "json").exits(exitOK).json(), "version", "go", "os", "arch", "schema")
}

func TestCompletion(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.run("__complete", "job", "show", "ni").exits(exitOK).prints("nightly-report").lacks("hello")
	c.run("__complete", "run", "list", "--state", "").exits(exitOK).prints("succeeded")
	c.run("__complete", "run", "list", "--job", "").exits(exitOK).prints("hello", "nightly-report")
	c.run("__complete", "job", "list", "-o", "").exits(exitOK).prints("jsonl")
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"report", "reprot", 1}, {"report", "reports", 1}, {"kitten", "sitting", 3}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
