package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
)

const (
	maxWait     = 25 * time.Second // below the time that a request may take
	endingsTick = 100 * time.Millisecond
)

func (a *api) outcomeRoutes() {
	handle(a, operation{id: "await-run", method: http.MethodGet, path: "/v1/runs/{id}/outcome", tag: tagRuns, scopes: []Scope{ScopeRead}, waits: true,
		summary: "Show a run as soon as it is final", description: "When the time to wait is over it is shown as it stands: ask again."}, a.awaitRun)
}

func (a *api) awaitRun(ctx context.Context, in *struct {
	RunPath
	Wait string `query:"wait" default:"20s" doc:"How long to wait, up to 25s"`
}) (*runOutput, error) {
	wait, err := time.ParseDuration(in.Wait)
	if err != nil || wait < 0 || wait > maxWait {
		return nil, invalid(Violation{Location: "query.wait", Value: shown(in.Wait), Message: "is no duration from 0s to " + maxWait.String()})
	}
	until, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		run, err := a.read.GetRun(ctx, in.ID)
		switch {
		case err != nil:
			return nil, err
		case run.State.Terminal() || until.Err() != nil || closed(a.Done):
			return &runOutput{Status: http.StatusOK, ETag: etag(run.Version), Body: whole(run)}, nil
		}
		if err := a.ended.wait(until, in.ID, a.Done); err != nil && until.Err() == nil {
			return nil, err
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endings tells requests that wait for runs when those have ended. One of the
// requests looks for all of them.
type endings struct {
	store *eventstore.Store

	mu      sync.Mutex
	waiting map[uuid.UUID][]chan struct{} // closed when the run is not live any more
	looking bool
	looked  time.Time
}

func newEndings(store *eventstore.Store) *endings {
	return &endings{store: store, waiting: map[uuid.UUID][]chan struct{}{}}
}

// wait returns when the run is not live any more, or done is closed.
func (e *endings) wait(ctx context.Context, run uuid.UUID, done <-chan struct{}) error {
	gone := make(chan struct{})
	e.add(run, gone)
	defer e.remove(run, gone)
	for {
		select {
		case <-gone:
			return nil
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(endingsTick):
		}
		if err := e.look(ctx); err != nil {
			return err
		}
	}
}

func (e *endings) add(run uuid.UUID, gone chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[run] = append(e.waiting[run], gone)
}

func (e *endings) remove(run uuid.UUID, gone chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	left := slices.DeleteFunc(e.waiting[run], func(c chan struct{}) bool { return c == gone })
	if e.waiting[run] = left; len(left) == 0 {
		delete(e.waiting, run)
	}
}

// look finds out for everybody, unless somebody does or just did.
func (e *endings) look(ctx context.Context) error {
	runs := e.turn()
	if runs == nil {
		return nil
	}
	live, err := e.store.LiveRuns(ctx, runs)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looking, e.looked = false, time.Now()
	if err != nil {
		return err
	}
	for _, run := range runs {
		if !live[run] {
			for _, gone := range e.waiting[run] {
				close(gone)
			}
			delete(e.waiting, run)
		}
	}
	return nil
}

func (e *endings) turn() []uuid.UUID {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.looking || time.Since(e.looked) < endingsTick {
		return nil
	}
	e.looking = true
	return slices.Collect(maps.Keys(e.waiting))
}
