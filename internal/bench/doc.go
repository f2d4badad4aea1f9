// Package bench measures Daybook on the machine it runs on. Engine, broker,
// worker and database are processes of their own, as in production, and the
// engine is the program itself: what is measured is what is shipped, with
// history, outbox, JetStream and fenced start, on a PostgreSQL that waits for
// its disk.
//
// Each figure comes with the processor time of every part. A rate depends on
// what else the machine did meanwhile; the time a run costs hardly does.
package bench

import (
	"fmt"

	"github.com/daybookhq/daybook/domain"
)

// The job whose runs are measured. Nothing else serves its lane.
const (
	jobName = "bench-noop"
	queue   = "bench"
	kind    = "bench-noop"
)

// Options are what all measurements share.
type Options struct {
	Exe      string // this program; it is run again for engine, broker and worker
	Dir      string // where a private PostgreSQL and the broker keep their files; empty: a directory for temporary files
	Server   string // a superuser's connection string of a PostgreSQL to measure on; empty: a private one
	Slots    int    // of the worker
	Profiles string // directory for processor profiles of the parts; empty: none
	Say      func(format string, args ...any)
}

// Report is what a measurement found. The figures of its first result stand at
// its top, too.
type Report struct {
	Bench    string   `json:"bench"`
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`
	Result
	Results []Result `json:"results"`
}

// Settings are what a figure depends on beside the machine.
type Settings struct {
	PostgreSQL map[string]string `json:"postgresql"`
	Slots      int               `json:"slots,omitempty"`
	Private    bool              `json:"private_server"` // a PostgreSQL of the measurement's own
	Rounds     int               `json:"rounds,omitempty"`
	Daybook    string            `json:"daybook"`
}

// Result is one row of figures. What was not measured is absent.
type Result struct {
	Name          string           `json:"name,omitempty"`
	Feed          *bool            `json:"feed,omitempty"`
	Projections   *bool            `json:"projections,omitempty"`
	Rate          float64          `json:"rate,omitempty"` // runs a second asked for
	Batch         int              `json:"batch,omitempty"`
	Claimers      int              `json:"claimers,omitempty"`
	Runs          int              `json:"runs,omitempty"`
	Seconds       float64          `json:"seconds,omitempty"`
	RunsPerSecond float64          `json:"runs_per_second,omitempty"`
	CaughtUp      float64          `json:"runs_per_second_until_caught_up,omitempty"` // feed and projections included
	P50           float64          `json:"p50_ms,omitempty"`
	P99           float64          `json:"p99_ms,omitempty"`
	P999          float64          `json:"p999_ms,omitempty"`
	Max           float64          `json:"max_ms,omitempty"`
	CPU           *CPU             `json:"cpu_us_per_run,omitempty"`
	WAL           int64            `json:"wal_bytes_per_run,omitempty"`
	PeakRSS       map[string]int64 `json:"peak_rss_bytes,omitempty"`
	Duplicates    *int             `json:"duplicates,omitempty"` // executions beyond one a run; claims of a run beyond one
	Rounds        []float64        `json:"rounds,omitempty"`     // runs a second of each round; the others are those of the median round
}

// CPU is processor time by part, in microseconds a run.
type CPU struct {
	Database float64 `json:"database"`
	Engine   float64 `json:"engine"`
	Broker   float64 `json:"broker"`
	Worker   float64 `json:"worker"`
	Total    float64 `json:"total"`
	// Everything else on the machine, and what the host of a virtual machine gave to
	// others: distrust a rate and a latency beside which one of them is not small.
	Other  float64 `json:"other"`
	Stolen float64 `json:"stolen"`
}

func (c *CPU) String() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%.0f + %.0f + %.0f + %.0f = %.0f", c.Database, c.Engine, c.Broker, c.Worker, c.Total)
}

func (c *CPU) text(part func(CPU) float64) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", part(*c))
}

func noopJob() domain.JobSpec {
	return domain.JobSpec{
		Name: jobName, Queue: queue, Kind: kind, Args: []byte(`{"num":1}`), TimeZone: domain.DefaultTimeZone, Overlap: domain.OverlapAllow,
		Misfire: domain.MisfireLatest, CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup,
		Timeout: domain.DefaultTimeout, Priority: domain.DefaultPriority,
		Retry: domain.DefaultRetry(),
	}
}
