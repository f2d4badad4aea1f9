package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/worker"
)

// RunBroker is the broker's process: it says where it is reached, and ends with ctx.
func RunBroker(ctx context.Context, dir string, out io.Writer, log *slog.Logger) error {
	// Room for what the streams of a production topology may grow to; it is reserved, not used.
	s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Port: -1, MaxStore: 16 << 30, Logger: log})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	if err := say(out, map[string]string{"nats": s.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Progress is what the worker's process tells about its work.
type Progress struct {
	Executed   int        `json:"executed"`
	Duplicates int        `json:"duplicates"`
	Latency    *Quantiles `json:"latency,omitempty"`
}

// Quantiles are of times, in milliseconds.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// RunWorker is the worker's process. It begins at the line "go", tells its
// progress, and answers the line "report" with how late its runs began, without
// those of the first eighth.
func RunWorker(ctx context.Context, natsURL string, slots int, in io.Reader, out io.Writer, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n := &noop{seen: map[uuid.UUID]struct{}{}}
	w := worker.New(worker.Config{NATSURL: natsURL, Queue: queue, Slots: slots, DrainTimeout: time.Second, Logger: log})
	worker.Handle(w, kind, n.handle)
	commands := make(chan string)
	go func() {
		defer stop() // whoever started this is gone
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case commands <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := say(out, map[string]bool{"ready": true}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	tell := time.NewTicker(50 * time.Millisecond)
	defer tell.Stop()
	told := 0
	for running := false; ; {
		select {
		case c := <-commands:
			if c == "go" && !running {
				running = true
				go func() { ended <- w.Run(ctx) }()
			}
			if c == "report" {
				if err := say(out, n.progress(true)); err != nil {
					return err
				}
			}
		case <-tell.C:
			if p := n.progress(false); p.Executed != told {
				told = p.Executed
				if err := say(out, p); err != nil {
					return err
				}
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			if !running {
				return nil
			}
			return <-ended
		}
	}
}

func say(out io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", b)
	}
	return err
}

// arguments of a measured run. At is when it was asked for, in nanoseconds since
// 1970; absent, it is measured from its instant.
type arguments struct {
	Num int   `json:"num"`
	At  int64 `json:"at,omitempty"`
}

// noop does nothing and remembers when.
type noop struct {
	mu         sync.Mutex
	executed   int
	duplicates int
	seen       map[uuid.UUID]struct{}
	late       []time.Duration
}

func (n *noop) handle(_ context.Context, r worker.Run[arguments]) error {
	now := time.Now()
	due := r.ScheduledAt
	if r.Args.At != 0 {
		due = time.Unix(0, r.Args.At)
	}
	id, err := uuid.Parse(r.ID)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.executed++
	if _, again := n.seen[id]; again {
		n.duplicates++
		return nil
	}
	n.seen[id] = struct{}{}
	n.late = append(n.late, now.Sub(due))
	return nil
}

func (n *noop) progress(latency bool) Progress {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := Progress{Executed: n.executed, Duplicates: n.duplicates}
	if latency {
		q := quantiles(n.late[len(n.late)/8:])
		p.Latency = &q
	}
	return p
}

func quantiles(samples []time.Duration) Quantiles {
	if len(samples) == 0 {
		return Quantiles{}
	}
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	at := func(q float64) float64 {
		i := min(int(q*float64(len(sorted))), len(sorted)-1)
		return round(float64(sorted[i].Microseconds())/1000, 2)
	}
	return Quantiles{Count: len(sorted), P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: at(1)}
}
