//go:build linux

package crashtest

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/needs"
)

// minutesVar makes the long tests run, and the one with random faults for about as
// many minutes.
const minutesVar = "DAYBOOK_TORTURE_MINUTES"

func needTorture(t *testing.T) {
	t.Helper()
	needs.Asked(t, minutesVar, "make torture runs this, and TestClusterKilled is its sample")
}

// TestNemesis does everything there is, in an order that the seed decides, one or
// two at a time, each at least one time.
func TestNemesis(t *testing.T) {
	needTorture(t)
	r, seed := newSeededRand(t)
	c := newCluster(t, r, options{held: 3 * time.Minute})
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.begin()
	time.Sleep(calm)
	bag := newBag(r, append(slices.Sorted(maps.Keys(clusterFaults)), slices.Sorted(maps.Keys(partitions))...))
	until := time.Now().Add(time.Duration(setting(t, minutesVar, 10)) * time.Minute)
	for n := 1; time.Now().Before(until) || !bag.emptied; n++ {
		time.Sleep(between(r, 200*time.Millisecond, 2*time.Second))
		kinds := []string{bag.draw()}
		if r.IntN(3) == 0 {
			kinds = append(kinds, bag.draw())
		}
		t.Logf("%s left, fault %d: %q", time.Until(until).Round(time.Second), n, kinds)
		c.fault(kinds...)
	}
	c.verdict(settings("nemesis", seed), log)
	if c.commitsLost() == 0 {
		t.Error("no answer to a COMMIT was lost on the way")
	}
}

// verdict stops everything, saves the history and has it judged. Every fault must
// have met a run in hand.
func (c *cluster) verdict(s judge.Settings, log *follower) judge.Report {
	c.t.Helper()
	h := c.end(s)
	dir := save(c.t, c.dir, h, c.logs()...)
	if err := os.WriteFile(filepath.Join(dir, "postgres.log"), []byte(log.end()), 0o644); err != nil {
		c.t.Fatal(err)
	}
	report := pass(c.t, h)
	strikes := map[string]int{}
	for _, f := range c.faults {
		strikes[f.Kind] += f.Strikes
	}
	for kind, n := range strikes {
		if n == 0 {
			c.t.Errorf("%s never met a run in hand, and proves nothing", kind)
		}
	}
	for _, p := range c.processes() {
		checkLog(c.t, p)
	}
	checkServerLog(c.t, log, c.excuses()...)
	return report
}

// bag gives things in a random order, each one time before any again.
type bag struct {
	r       *rand.Rand
	all     []string
	left    []string
	emptied bool
}

func newBag(r *rand.Rand, all []string) *bag { return &bag{r: r, all: all} }

func (b *bag) draw() string {
	if len(b.left) == 0 {
		b.left = slices.Clone(b.all)
		b.r.Shuffle(len(b.left), func(i, j int) { b.left[i], b.left[j] = b.left[j], b.left[i] })
	}
	one := b.left[0]
	b.left = b.left[1:]
	b.emptied = b.emptied || len(b.left) == 0
	return one
}
