package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// longOperations are those that take longer than a request may. One of a kind is
// carried out at a time: they read the whole log, and keep a snapshot meanwhile.
type longOperations struct {
	mu    sync.Mutex
	going map[string]bool
}

const (
	progressEvery = time.Second
	lineTimeout   = 10 * time.Second
	jsonLines     = "application/jsonl"
)

// progressLine tells how far it is, the last one how it ended.
type progressLine struct {
	Progress any      `json:"progress,omitempty"`
	Done     bool     `json:"done,omitempty"`
	Result   any      `json:"result,omitempty"`
	Problem  *Problem `json:"problem,omitempty"`
}

// begin answers with what do tells and returns. It ends with its request, or
// with the server.
func (l *longOperations) begin(name string, do func(ctx context.Context, tell func(any)) (any, error), a *api) (*huma.StreamResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.going[name] {
		return nil, newProblem(kindInProgress, name+" is under way on this engine").header("Retry-After", "10")
	}
	if l.going == nil {
		l.going = map[string]bool{}
	}
	l.going[name] = true
	return &huma.StreamResponse{Body: func(c huma.Context) {
		// Whoever reads how it ended may ask for the next at once.
		end := sync.OnceFunc(func() { l.end(name) })
		defer end()
		r, w := humago.Unwrap(c)
		a.serveLong(w, r.WithContext(c.Context()), do, end)
	}}, nil
}

func (l *longOperations) end(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.going, name)
}

func (a *api) serveLong(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, tell func(any)) (any, error), end func()) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request is over; the connection stays
	w.Header().Set("Content-Type", jsonLines)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	say := func(line progressLine) {
		_ = control.SetWriteDeadline(time.Now().Add(lineTimeout))
		if err := json.NewEncoder(w).Encode(line); err != nil {
			cancel() // nobody reads it
			return
		}
		_ = control.Flush()
	}
	var mu sync.Mutex
	var latest any = struct{}{}
	ended := make(chan progressLine, 1)
	go func() {
		ended <- a.carryOut(ctx, func(p any) {
			mu.Lock()
			defer mu.Unlock()
			latest = p
		}, do)
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	stopped := a.Done
	for {
		select {
		case line := <-ended:
			end()
			say(line)
			return
		case <-stopped:
			cancel()
			stopped = nil
		case <-tick.C:
			mu.Lock()
			line := progressLine{Progress: latest}
			mu.Unlock()
			say(line)
		}
	}
}

func (a *api) carryOut(ctx context.Context, tell func(any), do func(ctx context.Context, tell func(any)) (any, error)) (line progressLine) {
	defer func() {
		if v := recover(); v != nil {
			a.Logger.ErrorContext(ctx, "long operation panicked", "path", callOf(ctx).url.Path, "panic", v)
			line = progressLine{Problem: a.complete(ctx, newProblem(kindInternal, "the server failed; its log tells more"))}
		}
	}()
	result, err := do(ctx, tell)
	if err != nil {
		return progressLine{Problem: a.complete(ctx, problemOf(err))}
	}
	return progressLine{Done: true, Result: result}
}
