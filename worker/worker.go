package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Worker executes runs of the kinds registered with Handle.
type Worker struct {
	cfg    Config
	timing timing
	id     string

	mu       sync.Mutex
	handlers map[string]handlerFunc
	used     bool
}

// New makes a worker; Run connects it. Mistakes in the configuration are reported by Run.
func New(cfg Config) *Worker {
	cfg = cfg.withDefaults()
	return &Worker{cfg: cfg, timing: defaultTiming, id: newWorkerID(cfg.Name), handlers: make(map[string]handlerFunc)}
}

// ID is the name under which engines know this worker; it is new in every process.
func (w *Worker) ID() string { return w.id }

// Run takes and executes runs until ctx ends, and then drains: nothing more is pulled, handlers may go on for
// Config.DrainTimeout, what is left is stopped with ErrDraining and given back. It returns nil after a clean drain.
//
// Outages of NATS, of the engines or of the database do not end Run. It returns at once if the configuration is wrong,
// ErrUnauthorized if an engine refuses the worker, and an error if handlers did not return in time. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	used := w.used
	w.used = true
	w.mu.Unlock()
	if used {
		return errors.New("worker: Run was called before")
	}
	if err := w.cfg.validate(); err != nil {
		return err
	}
	if len(w.handlers) == 0 {
		return errors.New("worker: no kind is handled: call worker.Handle before Run")
	}
	var conn *nats.Conn
	if w.cfg.NATSURL != "" {
		var err error
		if conn, err = connect(w.cfg.NATSURL, w.id, w.cfg.Logger, w.cfg.NATSOptions); err != nil {
			return err
		}
		defer disconnect(conn)
	}
	s, err := newSession(ctx, w, conn)
	if err != nil {
		return err
	}
	defer s.stopRPC()
	return s.run()
}

// disconnect sends what is buffered, acks above all, and closes the connection for good.
func disconnect(conn *nats.Conn) {
	if conn.IsConnected() {
		_ = conn.FlushTimeout(2 * time.Second)
	}
	conn.Close()
}
