//go:build linux

package restoretest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/daybookhq/daybook/internal/needs"
	"github.com/daybookhq/daybook/internal/proctest"
)

// allVar asks for every scenario; by default one is done.
const allVar = "DAYBOOK_RESTORE_ALL"

func needAll(t *testing.T) {
	t.Helper()
	needs.Asked(t, allVar, "make restore does it, and TestFailover is the sample")
}

// TestFailover promotes a standby that has not got the last commits.
func TestFailover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	data := w.empty("b")
	w.shell(data, "standby", "SERVER_URL="+w.primary.DSN("postgres"), "PGDATA="+data)
	standby := w.server("b", nil)
	w.dsn = w.engineDSN(w.primary, standby)
	w.start()
	proctest.Await(t, "the standby follows", w.engines, func() (bool, string) {
		behind := query[int](t, standby, "SELECT count(*) FROM events") - query[int](t, w.primary, "SELECT count(*) FROM events")
		return behind >= -50, strconv.Itoa(behind)
	})
	if err := standby.Stop(t.Context()); err != nil { // it is being repaired, say
		t.Fatal(err)
	}
	l := w.loseWork()
	w.crash()
	standby = w.server("b", nil)
	w.shell(data, "promote", "SERVER_URL="+standby.DSN("postgres"))
	w.recover(standby, l)
}

// TestDumpRestored restores a dump on another server, while NATS keeps what came
// after it.
func TestDumpRestored(t *testing.T) {
	needAll(t)
	t.Parallel()
	w := newWorld(t, nil)
	second := w.server("b", nil) // it has no database yet
	w.dsn = w.engineDSN(w.primary, second)
	w.start()
	w.shell(w.backups, "dump", "MIGRATE_DATABASE_URL="+w.primary.DSN("daybook"), "SERVER_URL="+w.primary.DSN("postgres"))
	l := w.loseWork()
	w.crash()
	w.shell(w.backups, "restore-dump", "MIGRATE_DATABASE_URL="+second.DSN("daybook"), "SERVER_URL="+second.DSN("postgres"))
	w.recover(second, l)
}

// TestDumpRestoredBeside restores a dump on the server it came from: cluster and
// timeline are what they were.
func TestDumpRestoredBeside(t *testing.T) {
	needAll(t)
	t.Parallel()
	w := newWorld(t, nil)
	w.start()
	env := []string{"MIGRATE_DATABASE_URL=" + w.primary.DSN("daybook"), "SERVER_URL=" + w.primary.DSN("postgres")}
	w.shell(w.backups, "dump", env...)
	l := w.loseWork()
	w.shell(w.backups, "set-aside", env...)
	w.shell(w.backups, "restore-dump", env...)
	w.recover(w.primary, l)
}

// TestRestoredToAMoment restores a base backup and the archive up to a moment.
func TestRestoredToAMoment(t *testing.T) {
	needAll(t)
	t.Parallel()
	w := newWorld(t, map[string]string{"archive_mode": "on", "archive_command": `cp %p "ARCHIVE/%f"`})
	w.dsn = "postgres://daybook_engine@/daybook?sslmode=disable&target_session_attrs=read-write&host=" +
		filepath.Join(w.primary.Dir(), "s") + "," + filepath.Join(w.dir, "b", "s")
	w.start()
	w.shell(w.backups, "base-backup", "SERVER_URL="+w.primary.DSN("postgres"))
	w.awaitWork()
	moment := query[string](t, w.primary, "SELECT clock_timestamp()::text")
	l := w.loseWork()
	// The archive has the moment, and what came after it.
	file := query[string](t, w.primary, "SELECT pg_walfile_name(pg_switch_wal())")
	proctest.Await(t, "the log is archived", w.engines, func() (bool, string) {
		_, err := os.Stat(filepath.Join(w.archive, file))
		return err == nil, fmt.Sprint(err)
	})
	w.crash()
	data := w.empty("b")
	w.shell(data, "restore-to-a-moment", "PGDATA="+data, "MOMENT="+moment)
	restored := w.server("b", nil)
	w.recover(restored, l)
}

// TestNATSRestored puts an old store under NATS while the database goes on.
func TestNATSRestored(t *testing.T) {
	needAll(t)
	t.Parallel()
	w := newWorld(t, nil)
	w.start()
	w.worker.Kill()
	var asked []string
	for i := range 4 {
		asked = append(asked, w.ask(fmt.Sprint("in the backup ", i)).String())
	}
	proctest.Await(t, "messages wait in NATS", w.engines, func() (bool, string) {
		n := query[int](t, w.primary, "SELECT count(*) FROM claims WHERE run_id = ANY($1::uuid[]) AND start_token IS NULL", asked)
		return n == len(asked) && w.messages() >= n, fmt.Sprint(n, " claims, ", w.messages(), " messages")
	})
	old := filepath.Join(w.dir, "nats-backup")
	w.nats.Stop()
	copyDir(t, w.nats.Store, old)
	w.nats.Start()
	w.startWorker()
	w.awaitWork()
	done := "SELECT count(*) FROM events WHERE category = 'run' AND stream_id = ANY($1::uuid[]) AND type = '" + succeeded + "'"
	proctest.Await(t, "what waited is done", slices.Concat(w.engines, []*proctest.Process{w.worker}), func() (bool, string) {
		n := query[int](t, w.primary, done, asked)
		return n == len(asked), strconv.Itoa(n)
	})

	refused := w.metric("daybook_fence_rejected_total")
	w.nats.Stop()
	if err := os.RemoveAll(w.nats.Store); err != nil {
		t.Fatal(err)
	}
	copyDir(t, old, w.nats.Store)
	w.nats.Start()
	proctest.Await(t, "messages that come again are refused", w.engines, func() (bool, string) {
		n := w.metric("daybook_fence_rejected_total") - refused
		return n >= float64(len(asked)), fmt.Sprint(n)
	})
	w.awaitWork()
	w.drain(w.primary)
	if n := w.metric("daybook_unknown_claims_total"); n != 0 {
		t.Errorf("%g claims unknown to a database that lost nothing", n)
	}
	last := lastEvents(t, w.primary)
	for id, e := range w.executed() {
		if last[id] != succeeded {
			t.Errorf("run %s of %s ended with %q", id, e.job, last[id])
		}
		if slices.Contains(asked, id.String()) && e.times != 1 {
			t.Errorf("run %s was executed %d times: a message that came again was heeded", id, e.times)
		}
	}
	w.shell(w.backups, "prove", "DATABASE_URL="+w.dsn, "MIGRATE_DATABASE_URL="+w.primary.DSN("daybook"), "SERVER_URL="+w.primary.DSN("postgres"))
	w.worker.Stop()
	for _, e := range w.engines {
		e.Stop()
	}
}
