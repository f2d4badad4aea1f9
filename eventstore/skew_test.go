//go:build skew

package eventstore

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/natstest"
)

// skewed builds the program with a standard library whose clock on the wall is
// off by as many seconds as CLOCK_OFF says. The monotonic clock is right, as it
// is on a machine whose date is wrong.
func skewed(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, std := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const now = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {"
	if strings.Count(string(source), now) != 1 {
		t.Fatal("this Go reads its clock in a way that the test does not know")
	}
	clock := strings.Replace(string(source), now, "	sec, nsec, mono := runtimeNow()\n	sec += clockOff\n	if mono == 0 {", 1)
	const off = `package time

import "syscall"

var clockOff = func() (off int64) {
	s, _ := syscall.Getenv("CLOCK_OFF")
	sign := int64(1)
	for _, c := range []byte(s) {
		if c == '-' {
			sign = -1
		} else {
			off = off*10 + int64(c-'0')
		}
	}
	return off * sign
}()
`
	overlay := map[string]map[string]string{"Replace": {}}
	for name, text := range map[string]string{"time.go": clock, "clock_off.go": off} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(std, name)] = path
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "daybook")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "github.com/daybookhq/daybook/cmd/daybook")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// Two engines and a worker whose clocks differ by days from one another and from
// the database's, which moves forward and back, and an engine is killed now and
// then: the right runs, none twice.
func TestReplicasWithSkewedClocks(t *testing.T) {
	binary := skewed(t)
	start := time.Date(2027, 3, 10, 0, 0, 30, 0, time.UTC)
	end := start.AddDate(0, 0, 20)
	s := newSimulation(t, start)
	ns := natstest.New(t)
	run := func(name string, off time.Duration, args ...string) (kill func()) {
		log, err := os.Create(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s%+d.log", name, int(off.Hours()))))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "DATABASE_URL="+s.dsn, "NATS_URL="+ns.URL(), fmt.Sprintf("CLOCK_OFF=%d", int(off.Seconds())))
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var ended bool
		kill = func() {
			if !ended {
				ended = true
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait()
				_ = log.Close()
			}
		}
		t.Cleanup(kill)
		return kill
	}
	engine := func(off time.Duration) (kill func()) {
		return run("engine", off, "serve", "--nats-replicas", "1", "--http", "127.0.0.1:0", "--log-level", "warn")
	}
	s.Store = s.open(t, "test")
	if _, err := s.KeepPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs := []struct {
		name, expr, zone string
		hour, minute     int
		weekday          time.Weekday
		daily            bool
	}{
		{"weekly-new-york", "30 2 * * 0", "America/New_York", 2, 30, time.Sunday, false}, // in the gap of 14 March
		{"daily-berlin", "15 2 * * *", "Europe/Berlin", 2, 15, 0, true},                  // in the gap of 28 March
		{"daily-utc", "0 12 * * *", "UTC", 12, 0, 0, true},
	}
	for _, j := range jobs {
		sp := spec(j.name)
		sp.Schedules, sp.TimeZone, sp.Misfire, sp.CatchupWindow = []string{j.expr}, j.zone, domain.MisfireAll, 0
		sp.Kind, sp.Target = domain.KindExec, json.RawMessage(`{"argv": ["true"]}`)
		sp.Retry.MaxAttempts, sp.Retry.Initial = 100, domain.Duration(time.Millisecond) // whoever runs while the clock leaps loses its lease
		s.apply(t, sp)
	}
	await := func(what, sql string) {
		t.Helper()
		for limit := time.Now().Add(2 * time.Minute); s.count(t, sql) > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s: %d after two minutes", what, s.count(t, sql))
			}
		}
	}
	offs := []time.Duration{7 * time.Hour, -11 * time.Hour, 75 * day, -400 * day}
	kills := []func(){engine(offs[0]), engine(offs[1])}
	run("worker", -3*day, "worker", "--allow-exec", "--log-level", "warn")
	jumps := map[int]time.Duration{12: 30 * time.Hour, 30: -26 * time.Hour, 55: 31 * time.Hour, 70: -8 * day}
	const undecided = "SELECT count(*) FROM jobs WHERE next_fire <= now() + (SELECT ahead FROM fake.clock)"
	for i, now := 0, start; now.Before(end); i, now = i+1, now.Add(6*time.Hour) {
		s.set(t, now)
		await("instants without a decision", undecided)
		if by, ok := jumps[i]; ok {
			s.set(t, now.Add(by))
			await("instants without a decision after a jump", undecided)
		}
		if i%10 == 5 {
			n := i / 10 % 2
			kills[n]()
			kills[n] = engine(offs[i/10%len(offs)])
		}
	}
	s.set(t, end)
	await("instants without a decision", undecided)
	await("runs that are not finished", "SELECT (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM claims) + (SELECT count(*) FROM waiting_runs) + (SELECT count(*) FROM parked_runs)")
	for _, j := range jobs {
		want := oracle(t, j.zone, j.hour, j.minute, j.weekday, j.daily, start, end)
		rows, err := s.admin.Query(t.Context(), `SELECT (e.data->>'scheduled_at')::timestamptz,
			(SELECT count(*) FROM events d WHERE d.category = 'run' AND d.stream_id = e.stream_id AND d.type = 'RunSucceeded')
			FROM events e WHERE e.type = 'RunScheduled' AND e.data->>'job' = $1`, j.name)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[time.Time]bool{}
		for rows.Next() {
			var at time.Time
			var succeeded int
			if err := rows.Scan(&at, &succeeded); err != nil {
				t.Fatal(err)
			}
			if at = at.UTC(); !want[at] || seen[at] || succeeded != 1 {
				t.Errorf("%s: a run at %s, wanted %v, seen before %v, succeeded %d times", j.name, at, want[at], seen[at], succeeded)
			}
			seen[at] = true
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if len(seen) != len(want) || len(want) < 2 {
			t.Errorf("%s: %d instants ran of the %d that the wall clock showed", j.name, len(seen), len(want))
		}
	}
}
