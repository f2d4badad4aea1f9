//go:build linux

package crashtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/needs"
	"github.com/daybookhq/daybook/internal/proctest"
)

// TestControl does nothing: every run is executed one time.
func TestControl(t *testing.T) {
	needTorture(t)
	r, seed := newSeededRand(t)
	c := newCluster(t, r, options{})
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.begin()
	time.Sleep(20 * time.Second)
	report := c.verdict(settings("control", seed), log)
	if report.Duplicates+report.Retries+report.Released+report.Refunded > 0 || report.Executions < report.States[domain.Succeeded] {
		t.Errorf("without a fault:\n%s", report)
	}
}

// TestDiskFull fills the disks of database and broker, by turns.
func TestDiskFull(t *testing.T) {
	needTorture(t)
	d, err := newDisk(t, "400m", "postgres", "nats")
	if err != nil {
		missing(t, "disk", "a full disk needs the right to mount one that is small enough: %v", err)
	}
	r, seed := newSeededRand(t)
	c := newCluster(t, r, options{disk: d})
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.begin()
	time.Sleep(calm)
	for range 2 {
		for _, kind := range []string{"database's disk full", "broker's disk full"} {
			time.Sleep(between(r, 200*time.Millisecond, 2*time.Second))
			c.fault(kind)
		}
	}
	c.verdict(settings("disk", seed), log)
}

// TestClockMoved moves the clock of the database, ahead so that every lease is
// over at once, and back so that what was due is not, and at last ahead of
// whatever it has been at.
func TestClockMoved(t *testing.T) {
	needTorture(t)
	libs, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(libs) == 0 {
		missing(t, "clock", "the database's clock cannot be moved without libfaketime (apt-get install libfaketime)")
	}
	file := filepath.Join(proctest.ShortDir(t), "clock")
	set := func(offset time.Duration) {
		if err := os.WriteFile(file, fmt.Appendf(nil, "%+d\n", int(offset.Seconds())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	for name, v := range map[string]string{"LD_PRELOAD": libs[0], "FAKETIME_TIMESTAMP_FILE": file, "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"} {
		t.Setenv(name, v)
	}
	r, seed := newSeededRand(t)
	c := newCluster(t, r, options{jobs: 20})
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.begin()
	time.Sleep(calm)
	const most = 90 * time.Second
	for _, offset := range []time.Duration{60 * time.Second, 20 * time.Second, 70 * time.Second, 50 * time.Second, most} {
		time.Sleep(between(r, time.Second, 3*time.Second))
		from, n := time.Now(), c.inHand()
		t.Logf("the database's clock is %s ahead, with %d runs in hand", offset, n)
		set(offset)
		time.Sleep(between(r, 2*time.Second, 5*time.Second))
		c.work.await(t, c.processes()...)
		c.faults = append(c.faults, judge.Fault{Kind: "database's clock moved", Window: judge.Window{From: from, Until: time.Now()}, Stalls: true, Strikes: n})
	}
	s := settings("clock", seed)
	s.Clock, s.Late = most+time.Minute, 0
	c.healed = time.Time{} // by which clock?
	c.verdict(s, log)
}

// TestBurst has very many runs come due in one second, and kills an engine and
// the database while they are worked off.
func TestBurst(t *testing.T) {
	needTorture(t)
	runs := setting(t, burstVar, 100_000)
	r, seed := newSeededRand(t)
	c := newCluster(t, r, options{jobs: 10})
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.begin()
	due := time.Now().Add(15*time.Second + time.Duration(runs/4000)*time.Second)
	c.ask(runs, due)
	t.Logf("%d runs are asked for, %s before they are due", runs, time.Until(due).Round(time.Millisecond))
	time.Sleep(time.Until(due) + 3*time.Second)
	began := time.Now()
	c.fault("engine killed")
	c.fault("database stopped at once")
	s := settings("burst", seed)
	s.Late, s.Margin = 0, 10*time.Minute
	report := c.verdict(s, log)
	t.Logf("%d runs within %s", report.Runs, time.Since(began).Round(time.Second))
}

// burstVar says how many runs come due at the same time.
const burstVar = "DAYBOOK_CRASH_BURST"

// ask asks for runs that are all due at the same time. A batch without an answer
// is asked for again, under the same keys.
func (c *cluster) ask(runs int, due time.Time) {
	c.t.Helper()
	const batch = 1000
	var mu sync.Mutex
	var all sync.WaitGroup
	lane := make(chan struct{}, 4)
	for from := 0; from < runs; from += batch {
		lane <- struct{}{}
		all.Go(func() {
			defer func() { <-lane }()
			var items []map[string]any
			for n := from; n < min(from+batch, runs); n++ {
				items = append(items, map[string]any{"key": fmt.Sprintf("burst-%06d", n), "at": due, "args": witnessArgs{}})
			}
			var got struct {
				Runs []struct {
					RunID uuid.UUID `json:"run_id"`
					Key   string    `json:"key"`
				} `json:"runs"`
			}
			url := httpURL(c.ports[from/batch%replicas]) + "/v1/jobs/" + asked + "/runs:batch"
			for deadline := time.Now().Add(proctest.Patience); ; time.Sleep(100 * time.Millisecond) {
				status, err := post(context.Background(), url, map[string]any{"runs": items}, &got)
				if err == nil && status == http.StatusOK {
					break
				}
				if time.Now().After(deadline) {
					c.t.Errorf("ask for runs: status %d: %v", status, err)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, g := range got.Runs {
				c.burst = append(c.burst, judge.Asked{What: judge.Request, Job: domain.JobID(asked), Key: g.Key, Run: g.RunID, Answered: g.RunID != uuid.Nil})
			}
		})
	}
	all.Wait()
}

// missing skips a test for want of something that this machine has not, and says
// so where the results are.
func missing(t *testing.T, name, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if dir := os.Getenv(saveVar); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".skipped"), []byte(why+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	needs.That(t, false, "machine cannot prove it: %s", why)
}
