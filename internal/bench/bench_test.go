package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/pgtest"
)

func TestMain(m *testing.M) {
	remove := goleak.Cleanup(func(code int) {
		if built != "" {
			_ = os.RemoveAll(filepath.Dir(built))
		}
		os.Exit(code)
	})
	goleak.VerifyTestMain(m, append(pgtest.IgnoreServer(), remove)...)
}

// program builds daybook, one time for all tests.
func program(t *testing.T) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	if built != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "daybook-bench-test-")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "daybook")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", exe, "github.com/daybookhq/daybook/cmd/daybook").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built = exe
	return exe
}

var (
	building sync.Mutex
	built    string
)

func options(t *testing.T, slots int) Options {
	return Options{Exe: program(t), Dir: t.TempDir(), Server: pgtest.Empty(t).DSN, Slots: slots, Say: func(string, ...any) {}}
}

func TestDrainMeasuresTheWholeSystem(t *testing.T) {
	const runs = 300
	rep, err := Drain(t.Context(), DrainOptions{Options: options(t, 50), Runs: runs, Rounds: 1, Variants: []string{"plain", "all"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Results) != 2 || rep.Results[0].Name != "plain" || rep.Results[1].Name != "all" {
		t.Fatalf("results: %+v", rep.Results)
	}
	for _, r := range rep.Results {
		if r.Runs != runs || r.RunsPerSecond <= 0 || r.WAL <= 0 || r.Duplicates == nil || *r.Duplicates != 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		if runtime.GOOS == "linux" && (r.CPU == nil || r.CPU.Database <= 0 || r.CPU.Engine <= 0 || r.CPU.Worker <= 0 || r.PeakRSS["engine"] <= 0) {
			t.Errorf("%s: processor time %+v, memory %v", r.Name, r.CPU, r.PeakRSS)
		}
	}
	b, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"runs", "runs_per_second", "cpu_us_per_run", "wal_bytes_per_run", "peak_rss_bytes", "duplicates"} {
		if runtime.GOOS == "linux" && !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("the report has no %s: %s", key, b)
		}
	}
}

func TestMedianKeepsTheMiddleRound(t *testing.T) {
	m := median([]Result{{RunsPerSecond: 30, WAL: 3}, {RunsPerSecond: 10, WAL: 1}, {RunsPerSecond: 20, WAL: 2}})
	if m.RunsPerSecond != 20 || m.WAL != 2 || !slices.Equal(m.Rounds, []float64{30, 10, 20}) {
		t.Errorf("median: %+v", m)
	}
}

func TestQuantiles(t *testing.T) {
	var samples []time.Duration
	for i := range 1000 {
		samples = append(samples, time.Duration(1000-i)*time.Millisecond)
	}
	if got, want := quantiles(samples), (Quantiles{Count: 1000, P50: 501, P99: 991, P999: 1000, Max: 1000}); got != want {
		t.Errorf("quantiles: %+v, want %+v", got, want)
	}
}

func TestLatencyCountsFromTheInstantAndFromTheRequest(t *testing.T) {
	rep, err := Latency(t.Context(), LatencyOptions{Options: options(t, 20), Rates: []int{20}, Seconds: 1, Kinds: LatencyKinds})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Results) != 2 {
		t.Fatalf("results: %+v", rep.Results)
	}
	for _, r := range rep.Results {
		if r.Runs < 20 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P999 || *r.Duplicates != 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

// The naive way picks rows twice as soon as there are two claimers; none of the
// others ever does.
func TestClaimCountsDuplicates(t *testing.T) {
	rep, err := Claim(t.Context(), ClaimOptions{Options: options(t, 0), Rows: 2000, Batch: 50, Claimers: []int{1, 4}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Results {
		naive := r.Name == strategies[0].name && r.Claimers > 1
		if *r.Duplicates > 0 != naive {
			t.Errorf("%s with %d claimers: %d duplicates", r.Name, r.Claimers, *r.Duplicates)
		}
	}
}

func TestScaleMeasuresBesideOtherData(t *testing.T) {
	rep, err := Scale(t.Context(), ScaleOptions{Options: options(t, 50), Runs: 200, Finished: []int{500}, Future: []int{500}, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Results) != 6 {
		t.Fatalf("results: %+v", rep.Results)
	}
	for _, r := range rep.Results {
		if r.Runs != 200 || r.RunsPerSecond <= 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

func TestEnqueueCountsCommittedRuns(t *testing.T) {
	rep, err := Enqueue(t.Context(), EnqueueOptions{Options: options(t, 0), Batches: []int{1, 100}, Clients: 2, Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Results {
		if r.Runs < r.Batch || r.RunsPerSecond <= 0 || r.P50 <= 0 {
			t.Errorf("%+v", r)
		}
	}
}
