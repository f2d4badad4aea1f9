//go:build linux

package crashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/proctest"
	"github.com/daybookhq/daybook/worker"
)

// witnessVar makes the test binary a worker of the kind "witness", made with the
// public package, that notes what it says, hears and does. Its value is a
// witnessConfig.
const witnessVar = "DAYBOOK_CRASHTEST_WITNESS"

type witnessConfig struct {
	NATS, HTTP string
	Name       string // of this life
	Slots      int
	Acts       string // the file of its notes
	Sink       string // the directory of effects
	Trap       *trap  // where this life is to end, or to be interrupted
}

// trap has a worker end, or stop, at the hit of a point: on its wire or in its
// handler, so that the program itself need not know of it.
type trap struct {
	Point string
	Hit   int64
	Stop  bool // not killed, but stopped
	hits  atomic.Int64
}

// workerPoints are the points, in the order of a run.
var workerPoints = []string{"post_fetch", "pre_start", "post_start", "pre_effect", "post_effect", "pre_complete", "post_complete", "pre_ack", "post_ack"}

func (t *trap) at(point string) {
	if t == nil || t.Point != point || t.hits.Add(1) != t.Hit {
		return
	}
	if t.Stop {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// witnessArgs say how long a run takes.
type witnessArgs struct {
	Millis int `json:"millis"`
}

func serveWitness(config string) int {
	var c witnessConfig
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		log.Error("witness", "error", err)
		return 1
	}
	file, err := os.OpenFile(c.Acts, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Error("witness", "error", err)
		return 1
	}
	var mu sync.Mutex
	// Each note is one write to a file opened for appending, so that it is there
	// as a whole, or not at all, whenever the process is killed.
	note := func(a judge.Act) {
		b, err := json.Marshal(a)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := file.Write(append(b, '\n')); err != nil {
			panic(err)
		}
	}
	t := newTap(c.Name, note, c.Trap)
	w := worker.New(worker.Config{
		NATSURL: c.NATS, NATSOptions: []nats.Option{nats.SetCustomDialer(t), nats.ReconnectWait(200 * time.Millisecond)},
		URL: c.HTTP, HTTPClient: &http.Client{Transport: t}, Slots: c.Slots, Name: c.Name, DrainTimeout: 5 * time.Second, Logger: log,
	})
	worker.Handle(w, judge.WitnessKind, func(ctx context.Context, run worker.Run[witnessArgs]) error {
		id, err := uuid.Parse(run.ID)
		if err != nil {
			return err
		}
		act := judge.Act{Worker: c.Name, Run: id, Claim: t.claimOf(id, run.Attempt), Attempt: run.Attempt}
		say := func(what string) { act.At, act.What = time.Now(), what; note(act) }
		say(judge.Starts)
		defer say(judge.Ends)
		if err := pauseFor(ctx, time.Duration(run.Args.Millis)*time.Millisecond/2); err != nil {
			return err
		}
		c.Trap.at("pre_effect")
		switch made, err := effect(c.Sink, id); {
		case err != nil:
			return err
		case made:
			say(judge.Effect)
		default:
			say(judge.Repeated)
		}
		c.Trap.at("post_effect")
		return pauseFor(ctx, time.Duration(run.Args.Millis)*time.Millisecond/2)
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		log.Error("witness", "error", err)
		return 1
	}
	return 0
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// effect makes the effect of a run, unless it is there: a file that is created
// and must not exist. The run's id is the key.
func effect(sink string, run uuid.UUID) (made bool, err error) {
	dir := filepath.Join(sink, run.String()[34:])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	f, err := os.OpenFile(filepath.Join(dir, run.String()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// witnesses are the workers with a witness, over all their lives.
type witnesses struct {
	dir   string
	mu    sync.Mutex
	lives []judge.Life
	files []string
	born  int
}

func (w *witnesses) sink() string { return filepath.Join(w.dir, "sink") }

// launch starts a worker; its end is noted as its life's.
func (w *witnesses) launch(t *testing.T, name, natsURL, httpURL string, slots int, tr *trap) *proctest.Process {
	t.Helper()
	w.born++
	life := fmt.Sprintf("%s-%d", name, w.born)
	c := witnessConfig{NATS: natsURL, HTTP: httpURL, Name: life, Slots: slots, Acts: filepath.Join(w.dir, "acts-"+life), Sink: w.sink(), Trap: tr}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.files = append(w.files, c.Acts)
	p := proctest.Launch(t, w.dir, name, self, []string{witnessVar + "=" + string(b)})
	go func() {
		<-p.Done()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lives = append(w.lives, judge.Life{Worker: life, Until: time.Now()})
	}()
	return p
}

// size is how much has been noted in all.
func (w *witnesses) size() (n int64) {
	for _, f := range w.files {
		n += size(f)
	}
	return n
}

// read gives what was seen, after the workers have ended.
func (w *witnesses) read(h *judge.History) error {
	w.mu.Lock()
	h.Lives = append([]judge.Life{}, w.lives...)
	w.mu.Unlock()
	h.Acts, h.Sink = []judge.Act{}, []judge.Key{}
	for _, name := range w.files {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was killed before it began
		}
		if err != nil {
			return err
		}
		dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
		for {
			var a judge.Act
			err := dec.Decode(&a)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = f.Close()
				return fmt.Errorf("%s: %w", name, err)
			}
			h.Acts = append(h.Acts, a)
		}
		_ = f.Close()
	}
	files, err := filepath.Glob(filepath.Join(w.sink(), "*", "*"))
	for _, f := range files {
		id, err := uuid.Parse(filepath.Base(f))
		if err != nil {
			return fmt.Errorf("sink: %w", err)
		}
		h.Sink = append(h.Sink, judge.Key{Run: id})
	}
	return err
}

// isWitness tells from its environment whether this process is one.
func isWitness() (string, bool) {
	v := os.Getenv(witnessVar)
	return v, strings.TrimSpace(v) != ""
}
