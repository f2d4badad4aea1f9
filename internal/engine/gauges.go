package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

// gauges are what the tables say, read every few seconds: a scrape costs the
// database nothing.
type gauges struct {
	store  *eventstore.Store
	reader *projections.Reader
	log    *slog.Logger

	due, later, waiting, claimed, running, workers *prometheus.GaugeVec // queue, kind
	oldest                                         *prometheus.GaugeVec // queue, kind
	packs, packAge                                 *prometheus.GaugeVec // state
	behind                                         *prometheus.GaugeVec // reader
	parked                                         prometheus.Gauge

	deserted map[eventstore.WorkerLane]bool // lanes that were reported to have no worker
}

const gaugesEvery = 10 * time.Second

func newGauges(r prometheus.Registerer, store *eventstore.Store, relay *outbox.Relay, log *slog.Logger) *gauges {
	lane := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"queue", "kind"})
	}
	state := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"state"})
	}
	g := &gauges{
		store: store, reader: projections.NewReader(store), log: log, deserted: map[eventstore.WorkerLane]bool{},
		due:     lane("daybook_queue_due", "Runs that could be claimed now."),
		later:   lane("daybook_queue_later", "Runs that wait for their time."),
		waiting: lane("daybook_queue_waiting", "Runs set aside for a place."),
		claimed: lane("daybook_queue_claimed", "Runs in hand, not started."),
		running: lane("daybook_queue_running", "Runs that are executed."),
		workers: lane("daybook_queue_workers", "Live workers that declare the lane."),
		oldest:  lane("daybook_queue_oldest_ready_seconds", "How long the oldest due run has been ready."),
		packs:   state("daybook_outbox_packs", "Packs in the outbox."),
		packAge: state("daybook_outbox_oldest_seconds", "Age of the oldest pack."),
		behind:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "daybook_reader_behind_seconds", Help: "How far readers of the log are behind."}, []string{"reader"}),
		parked:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "daybook_parked_runs", Help: "Runs put aside because they cannot be processed."}),
	}
	r.MustRegister(g.due, g.later, g.waiting, g.claimed, g.running, g.workers, g.oldest, g.packs, g.packAge, g.behind, g.parked)
	counter := func(name, help string, read func(outbox.Stats) uint64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(read(relay.Stats())) }))
	}
	counter("daybook_dispatches_published_total", "Messages the broker took.", func(s outbox.Stats) uint64 { return s.Published })
	counter("daybook_dispatches_failed_total", "Messages the broker did not take; they are tried again.", func(s outbox.Stats) uint64 { return s.Failed })
	counter("daybook_dispatches_dropped_total", "Messages not sent because their lease was over.", func(s outbox.Stats) uint64 { return s.Dropped })
	counter("daybook_dispatches_parked_total", "Messages that can never be published.", func(s outbox.Stats) uint64 { return s.Parked })
	return g
}

// Step reads the tables.
func (g *gauges) Step(ctx context.Context) (bool, time.Duration, error) {
	return true, gaugesEvery, errors.Join(g.lanes(ctx), g.outbox(ctx), g.readers(ctx))
}

func (g *gauges) lanes(ctx context.Context) error {
	queues, err := g.reader.Queues(ctx)
	if err != nil {
		return err
	}
	for _, v := range []*prometheus.GaugeVec{g.due, g.later, g.waiting, g.claimed, g.running, g.workers, g.oldest} {
		v.Reset() // a lane that is gone must not keep its last value
	}
	deserted := map[eventstore.WorkerLane]bool{}
	for _, q := range queues {
		g.due.WithLabelValues(q.Queue, q.Kind).Set(float64(q.Due))
		g.later.WithLabelValues(q.Queue, q.Kind).Set(float64(q.NotDue))
		g.waiting.WithLabelValues(q.Queue, q.Kind).Set(float64(q.Waiting))
		g.claimed.WithLabelValues(q.Queue, q.Kind).Set(float64(q.Claimed))
		g.running.WithLabelValues(q.Queue, q.Kind).Set(float64(q.Running))
		g.workers.WithLabelValues(q.Queue, q.Kind).Set(float64(q.Workers))
		g.oldest.WithLabelValues(q.Queue, q.Kind).Set(q.OldestWait.Std().Seconds())
		lane := eventstore.WorkerLane{Queue: q.Queue, Kind: q.Kind}
		if q.Workers == 0 && q.Due > 0 && q.OldestWait.Std() > gaugesEvery {
			deserted[lane] = true
			if !g.deserted[lane] {
				g.log.WarnContext(ctx, "runs are due and no worker declares their lane", "queue", q.Queue, "kind", q.Kind, "due", q.Due, "oldest", q.OldestWait.String())
			}
		}
	}
	g.deserted = deserted
	parked, err := g.store.ListParked(ctx, 1000)
	if err == nil {
		g.parked.Set(float64(len(parked)))
	}
	return err
}

func (g *gauges) outbox(ctx context.Context) error {
	s, err := outbox.ReadStatus(ctx, g.store.Pool(), 0)
	if err != nil {
		return err
	}
	for state, b := range map[outbox.State]outbox.Backlog{outbox.Pending: s.Pending, outbox.Failed: s.Failed, outbox.Parked: s.Parked} {
		g.packs.WithLabelValues(string(state)).Set(float64(b.Packs))
		g.packAge.WithLabelValues(string(state)).Set(b.Oldest.Seconds())
	}
	return nil
}

func (g *gauges) readers(ctx context.Context) error {
	lags, err := g.reader.Lags(ctx, projections.RunSummariesName, projections.FeedName)
	for _, l := range lags {
		g.behind.WithLabelValues(l.Projection).Set(l.Behind.Std().Seconds())
	}
	return err
}
