//go:build linux

package soaktest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/needs"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/internal/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m) }

// minutesVar is how long the load lasts. Without it there is none.
const minutesVar = "DAYBOOK_SOAK_MINUTES"

const sampleEvery = 5 * time.Second

// idsRemembered is when the broker has as many ids of events in memory as it will
// ever have at the same load; those of dispatches, a few thousand, come until later.
const idsRemembered = 2 * time.Minute

// bounds of the quantities. Processes of the Go runtime keep memory that they
// have freed; the broker caches what it has last written.
var bounds = map[string]bound{
	"resident MiB": {1.15, 10},
	"heap MiB":     {1.2, 8},
	"goroutines":   {1.05, 10},
	"threads":      {1.1, 4},
	"descriptors":  {1.02, 5},
	"connections":  {1, 2},
	"rows":         {1.2, 200},
}

// soak is a deployment with what was measured of it.
type soak struct {
	t       *testing.T
	site    proctest.Site
	pg      *pgtest.Cluster
	db      *pgtest.DB
	began   time.Time
	engines []*proctest.Process
	workers []*proctest.Process
	series  map[string][]sample // "engine-0 goroutines"

	runs, requests, streams atomic.Int64 // by the test's own requests
}

// TestSoak keeps a deployment at work: schedules that fire every second, retries,
// requests over HTTP, lists that are read, streams of events that are opened and
// left, a job whose definition changes, a worker that comes and goes.
func TestSoak(t *testing.T) {
	minutes, err := strconv.ParseFloat(needs.Asked(t, minutesVar, "make soak does it, for so many minutes"), 64)
	if err != nil || minutes <= 0 {
		t.Fatalf("%s: minutes as a number above 0 are wanted: %v", minutesVar, err)
	}
	length := time.Duration(minutes * float64(time.Minute))
	s := &soak{t: t, pg: pgtest.Durable(t, nil), series: map[string][]sample{}}
	s.db = s.pg.New(t)
	dir := proctest.ShortDir(t)
	s.site = proctest.Site{Dir: dir, DSN: s.db.DSNFor("daybook_engine"), NATS: proctest.StartNATS(t, dir)}
	for i := range 2 {
		s.engines = append(s.engines, s.site.Engine(t, "engine-"+strconv.Itoa(i), ""))
	}
	for i, e := range s.engines {
		e.AwaitReady()
		s.workers = append(s.workers, s.site.Worker(t, "worker-"+strconv.Itoa(i), e.URL, 16))
	}
	s.apply(0)

	ctx, stop := context.WithCancel(t.Context())
	s.began = time.Now()
	done := make(chan struct{})
	go func() { defer close(done); s.load(ctx) }()
	for time.Since(s.began) < length && !t.Failed() {
		s.measure()
		time.Sleep(sampleEvery)
	}
	stop()
	<-done
	s.judge(length)
	for _, p := range append(slices.Clone(s.workers), s.engines...) {
		p.Stop()
	}
}

// apply defines the jobs, one of them another way each time.
func (s *soak) apply(round int) {
	var b strings.Builder
	b.WriteString("jobs:\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  - {name: tick-%02d, schedule: '@every 1s', overlap: allow, retry: {max_attempts: 3, initial: 1s}, timeout: 1m, exec: {argv: [/bin/true]}}\n", i)
	}
	b.WriteString("  - {name: fails, schedule: '@every 2s', overlap: allow, retry: {max_attempts: 2, initial: 1s}, timeout: 1m, exec: {argv: [/bin/sh, -c, 'echo no; exit 3']}}\n")
	b.WriteString("  - {name: limited, schedule: '@every 1s', overlap: queue, concurrency: {limit: 1}, timeout: 1m, exec: {argv: [/bin/sleep, '0.2']}}\n")
	fmt.Fprintf(&b, "  - {name: asked, timeout: 1m, tags: [round-%d], exec: {argv: [/bin/true]}}\n", round)
	file := filepath.Join(s.site.Dir, "jobs.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		s.t.Error(err)
		return
	}
	p := proctest.Launch(s.t, s.site.Dir, "apply", proctest.Program(s.t), []string{"DATABASE_URL=" + s.site.DSN}, "job", "apply", "-f", file)
	p.Wait()
	if !strings.Contains(p.Output(), "asked") {
		s.t.Errorf("jobs are not applied: %s", p.Tail())
	}
}

// load asks, several times a second, what people and programs ask.
func (s *soak) load(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e := s.engines[n%2].URL
		s.ask(ctx, http.MethodPost, e+"/v1/jobs/asked/runs", fmt.Sprintf(`{"key": "k-%d"}`, n/2)) // every second one is a repeat
		s.ask(ctx, http.MethodGet, e+"/v1/runs?limit=50", "")
		switch {
		case n%10 == 0:
			s.stream(ctx, e)
		case n%25 == 1:
			s.ask(ctx, http.MethodGet, e+"/v1/jobs/tick-01/history", "")
			s.ask(ctx, http.MethodGet, e+"/v1/queues", "")
		case n%300 == 2: // every minute
			s.apply(n)
			guest := s.site.Worker(s.t, "guest", s.engines[0].URL, 4)
			time.AfterFunc(20*time.Second, guest.Stop)
		}
	}
}

func (s *soak) ask(ctx context.Context, method, url, body string) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			s.t.Errorf("%s %s: %v", method, url, err)
		}
		return
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&answer); ctx.Err() == nil && (err != nil || resp.StatusCode >= 400) {
		s.t.Errorf("%s %s: %s %v %.300s", method, url, resp.Status, err, answer)
	}
	s.requests.Add(1)
	if method == http.MethodPost {
		s.runs.Add(1)
	}
}

// stream subscribes to the events, waits for one and goes away without a word.
func (s *soak) stream(ctx context.Context, url string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/events?after=now", nil)
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			s.t.Errorf("stream of events: %v", err)
		}
		return
	}
	defer resp.Body.Close()
	if n, err := resp.Body.Read(make([]byte, 64)); n > 0 || err == nil {
		s.streams.Add(1)
	}
}

// measure takes a sample of everything.
func (s *soak) measure() {
	s.t.Helper()
	at := time.Since(s.began)
	put := func(process, what string, v float64) {
		s.series[process+" "+what] = append(s.series[process+" "+what], sample{at, v})
	}
	for _, p := range slices.Concat(s.engines, s.workers, []*proctest.Process{s.site.NATS.Process}) {
		if p.Ended() {
			s.t.Fatalf("%s ended: %s", p.Name, p.Tail())
		}
		u, err := p.Usage()
		if err != nil {
			s.t.Fatal(err)
		}
		put(p.Name, "resident MiB", float64(u.Resident)/(1<<20))
		put(p.Name, "threads", float64(u.Threads))
		put(p.Name, "descriptors", float64(u.Descriptors))
	}
	for _, e := range s.engines {
		m, err := proctest.Metrics(e.URL)
		if err != nil {
			s.t.Fatal(err)
		}
		put(e.Name, "goroutines", m["go_goroutines"])
		put(e.Name, "heap MiB", m["go_memstats_heap_alloc_bytes"]/(1<<20))
	}
	c, err := pgx.Connect(s.t.Context(), s.db.DSN)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(s.t.Context())) }()
	var connections, rows, finished float64
	err = c.QueryRow(s.t.Context(), `SELECT (SELECT count(*) FROM pg_stat_activity WHERE usename = 'daybook_engine'),
		(SELECT count(*) FROM due_runs) + (SELECT count(*) FROM waiting_runs) + (SELECT count(*) FROM claims) + (SELECT count(*) FROM outbox) +
		(SELECT count(*) FROM limit_holders) + (SELECT count(*) FROM workers) + (SELECT count(*) FROM engines),
		(SELECT count(*) FROM run_summaries WHERE state IN ('succeeded', 'failed'))`).Scan(&connections, &rows, &finished)
	if err != nil {
		s.t.Fatal(err)
	}
	put("postgres", "connections", connections)
	put("postgres", "rows", rows)
	put("postgres", "runs finished", finished)
}

// judge prints the table and fails for what grew.
func (s *soak) judge(length time.Duration) {
	s.t.Helper()
	warmUp := max(length/5, min(idsRemembered, length/2))
	finished := s.series["postgres runs finished"]
	done := finished[len(finished)-1].value - finished[0].value
	s.t.Logf("%s: %.0f runs finished (%.1f a second), %d asked for over HTTP, %d requests, %d streams of events",
		length, done, done/length.Seconds(), s.runs.Load(), s.requests.Load(), s.streams.Load())
	if done < length.Seconds()*15 {
		s.t.Errorf("%.0f runs finished in %s: the load was not there, so nothing is proved", done, length)
	}
	s.t.Logf("%-24s %10s %10s %12s", "", "first", "last", "an hour")
	for _, name := range slices.Sorted(maps.Keys(s.series)) {
		_, what, _ := strings.Cut(name, " ")
		b, bounded := bounds[what]
		if !bounded {
			continue
		}
		got, err := b.judge(s.series[name], warmUp)
		if err != nil {
			s.t.Error(err)
			return
		}
		s.t.Logf("%-24s %10.1f %10.1f %+12.1f", name, got.first, got.last, got.perHour)
		if !got.flat {
			s.t.Errorf("%s grows: %.1f in the first third after the warm-up, %.1f in the last", name, got.first, got.last)
		}
	}
}
