package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// BenchmarkDrain executes runs that do nothing, with the engine, the server and the worker in one process.
func BenchmarkDrain(b *testing.B) {
	for _, perMessage := range []int{1, 10} {
		b.Run(fmt.Sprintf("hints=%d", perMessage), func(b *testing.B) {
			e := newEngine(b).serveNATS()
			w := e.worker(func(c *worker.Config) { c.Slots = 1000; c.Logger = natstest.Quiet() })
			left := make(chan struct{}, 1_000_000)
			worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { left <- struct{}{}; return nil })
			for i := 0; i < b.N; i += perMessage {
				var runs []*fakeRun
				for range perMessage {
					runs = append(runs, e.claim(lane, "r", "{}"))
				}
				hints := make([]protocol.Hint, len(runs))
				for i, r := range runs {
					hints[i] = r.hint()
				}
				if _, err := e.js.PublishAsync(protocol.DispatchSubject(queue, kind), protocol.AppendHints(nil, hints), jetstream.WithStallWait(time.Minute)); err != nil {
					b.Fatal(err)
				}
			}
			<-e.js.PublishAsyncComplete()
			b.ResetTimer()
			e.start(w)
			for range b.N {
				<-left
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkIdleLatency is the time from publication to the handler of a worker with nothing to do.
func BenchmarkIdleLatency(b *testing.B) {
	for _, c := range []struct{ lanes, slots int }{{1, 1}, {4, 8}, {6, 1}} {
		b.Run(fmt.Sprintf("lanes=%d/slots=%d", c.lanes, c.slots), func(b *testing.B) {
			var lanes []protocol.Lane
			for i := range c.lanes {
				lanes = append(lanes, protocol.Lane{Queue: queue, Kind: fmt.Sprintf("k%d", i)})
			}
			e := newEngine(b).serveNATS(lanes...)
			w := e.worker(func(cfg *worker.Config) { cfg.Slots = c.slots })
			began := make(chan struct{}, 1)
			for _, l := range lanes {
				worker.Handle(w, l.Kind, func(context.Context, worker.Run[struct{}]) error { began <- struct{}{}; return nil })
			}
			e.start(w)
			e.dispatch(e.claim(lanes[0], "warm", ""))
			<-began
			var most time.Duration
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				time.Sleep(20 * time.Millisecond)
				b.StartTimer()
				at := time.Now()
				e.dispatch(e.claim(lanes[i%len(lanes)], "r", ""))
				<-began
				most = max(most, time.Since(at))
			}
			b.ReportMetric(float64(most.Microseconds())/1000, "max-ms")
		})
	}
}
