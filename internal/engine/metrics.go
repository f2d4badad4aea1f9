package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// metrics counts what the loops and the workers' calls do. Labels are bounded:
// queues and kinds are those that workers declare, everything else is a constant
// of this program.
type metrics struct {
	claims       *prometheus.CounterVec   // queue, kind
	claimSeconds prometheus.Histogram     // one claim transaction
	waitSeconds  *prometheus.HistogramVec // queue: ready → claimed
	fires        prometheus.Counter
	fireLag      prometheus.Histogram // instant → RunScheduled
	skips        prometheus.Counter
	expired      *prometheus.CounterVec // event
	outcomes     *prometheus.CounterVec // op, result
	refusals     *prometheus.CounterVec // op, code
	unknown      prometheus.Counter
	runSeconds   *prometheus.HistogramVec // queue: started → closed
	parked       prometheus.Counter
	calls        *prometheus.HistogramVec // op: a worker's call, as answered
	batchSize    *prometheus.HistogramVec // kind of batch
}

func newMetrics(r prometheus.Registerer, seen *watchdog) *metrics {
	m := &metrics{
		claims:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_claims_total", Help: "Runs claimed."}, []string{"queue", "kind"}),
		claimSeconds: prometheus.NewHistogram(histogram("daybook_claim_seconds", "Duration of a claim transaction.")),
		waitSeconds:  prometheus.NewHistogramVec(histogram("daybook_run_wait_seconds", "From a run's ready time to its claim."), []string{"queue"}),
		fires:        prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_fires_total", Help: "Due instants that got a run."}),
		fireLag:      prometheus.NewHistogram(histogram("daybook_schedule_lag_seconds", "From a due instant to its run, catch-up left out.")),
		skips:        prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_fires_skipped_total", Help: "Due instants decided to be skipped."}),
		expired:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_leases_expired_total", Help: "Claims closed by the reaper, by the event that closed them."}, []string{"event"}),
		outcomes:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_outcomes_total", Help: "Operations of workers that were recorded, or repeats of such."}, []string{"op", "result"}),
		refusals:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "daybook_fence_rejected_total", Help: "Operations of workers that were refused."}, []string{"op", "code"}),
		unknown:      prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_unknown_claims_total", Help: "Operations for claims the database has never seen: messages from a future that a restore undid."}),
		runSeconds:   prometheus.NewHistogramVec(histogram("daybook_run_seconds", "From an attempt's start to its outcome."), []string{"queue"}),
		parked:       prometheus.NewCounter(prometheus.CounterOpts{Name: "daybook_parked_total", Help: "Rows put aside because they cannot be processed."}),
		calls:        prometheus.NewHistogramVec(histogram("daybook_worker_call_seconds", "A worker's call, from arrival to answer."), []string{"op"}),
		batchSize:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "daybook_batch_size", Help: "Items in one transaction.", Buckets: prometheus.ExponentialBuckets(1, 4, 7)}, []string{"batch"}),
	}
	ages := &loopAges{seen: seen, desc: prometheus.NewDesc("daybook_loop_last_success_age_seconds", "Age of each loop's last success.", []string{"loop"}, nil)}
	r.MustRegister(m.claims, m.claimSeconds, m.waitSeconds, m.fires, m.fireLag, m.skips, m.expired, m.outcomes, m.refusals, m.unknown,
		m.runSeconds, m.parked, m.calls, m.batchSize, ages)
	return m
}

func histogram(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12), NativeHistogramBucketFactor: 1.2}
}

func (m *metrics) claimed(lane eventstore.WorkerLane, c eventstore.Claimed, took time.Duration) {
	if len(c.Runs) == 0 {
		return
	}
	m.claims.WithLabelValues(lane.Queue, lane.Kind).Add(float64(len(c.Runs)))
	m.claimSeconds.Observe(took.Seconds())
	m.batchSize.WithLabelValues("claim").Observe(float64(len(c.Runs)))
	wait := m.waitSeconds.WithLabelValues(lane.Queue)
	for _, r := range c.Runs {
		wait.Observe(c.Now.Sub(r.ReadyAt).Seconds())
	}
}

func (m *metrics) materialized(got eventstore.Materialized) {
	m.fires.Add(float64(len(got.Runs)))
	m.skips.Add(float64(got.Skipped))
	for _, r := range got.Runs {
		if lag := got.Now.Sub(r.ScheduledAt); lag < domain.MisfireGrace {
			m.fireLag.Observe(lag.Seconds())
		}
	}
}

func (m *metrics) reaped(e eventstore.Expired) { m.expired.WithLabelValues(e.Event.EventType()).Inc() }

// loopAges exports the watchdog.
type loopAges struct {
	seen *watchdog
	desc *prometheus.Desc
}

func (l *loopAges) Describe(ch chan<- *prometheus.Desc) { ch <- l.desc }

func (l *loopAges) Collect(ch chan<- prometheus.Metric) {
	for name, age := range l.seen.ages() {
		ch <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, age.Seconds(), name)
	}
}
