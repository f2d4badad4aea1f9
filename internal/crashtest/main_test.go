//go:build linux

package crashtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/internal/proctest"
)

// binary is the program under test.
var binary string

const (
	roundsVar = "DAYBOOK_CRASH_ROUNDS"
	jobsVar   = "DAYBOOK_CRASH_JOBS"
	seedVar   = "DAYBOOK_CRASH_SEED"
	raceVar   = "DAYBOOK_CRASH_RACE" // build with the race detector
	saveVar   = "DAYBOOK_CRASH_SAVE" // the folder that histories are saved in
)

func TestMain(m *testing.M) {
	proctest.BeNATS()
	if config, ok := isWitness(); ok {
		os.Exit(serveWitness(config))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		fmt.Println("crash tests are skipped: they are not short")
		return 0
	}
	dir, err := os.MkdirTemp("", "daybook-crashtest-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "daybook")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary}
	if os.Getenv(raceVar) != "" {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "github.com/daybookhq/daybook/cmd/daybook")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program under test: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(pgtest.IgnoreServer()...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// calm is how long nothing is done at first: what fails without a fault has no
// excuse.
const calm = 2 * time.Second

// setting reads a positive number from the environment.
func setting(t *testing.T, name string, standard int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return standard
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a positive number", name, v)
	}
	return n
}

// newRand makes the source of a test's choices, which its log tells how to
// repeat. What the processes do meanwhile nothing repeats.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	r, _ := newSeededRand(t)
	return r
}

func newSeededRand(t *testing.T) (*rand.Rand, int) {
	t.Helper()
	seed := setting(t, seedVar, int(time.Now().UnixNano()%1_000_000)+1)
	t.Logf("%s=%d", seedVar, seed)
	return rand.New(rand.NewPCG(uint64(seed), 7)), seed
}

// between is a time in the range.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
