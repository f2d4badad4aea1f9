//go:build linux

package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
)

// client keeps no connection: the far end dies often.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// asker asks engines for runs over HTTP, and cancels some, until it is stopped.
// It repeats a request under the same key until it has an answer.
type asker struct {
	urls []string
	job  string
	r    *rand.Rand
	stop context.CancelFunc
	done chan struct{}

	mu  sync.Mutex
	log []judge.Asked
}

func startAsking(seed uint64, job string, urls []string) *asker {
	ctx, stop := context.WithCancel(context.Background())
	a := &asker{urls: urls, job: job, r: rand.New(rand.NewPCG(seed, 11)), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for n := 0; ctx.Err() == nil; n++ {
			a.one(ctx, n)
			select {
			case <-ctx.Done():
			case <-time.After(between(a.r, 20*time.Millisecond, 200*time.Millisecond)):
			}
		}
	}()
	return a
}

func (a *asker) one(ctx context.Context, n int) {
	key := fmt.Sprintf("key-%05d", n)
	asked := judge.Asked{What: judge.Request, Job: domain.JobID(a.job), Key: key}
	var got struct {
		RunID uuid.UUID `json:"run_id"`
	}
	body := map[string]any{"key": key, "args": witnessArgs{Millis: a.r.IntN(400)}}
	path := "/v1/jobs/" + a.job + "/runs"
	if n%5 == 0 { // two ask for the same
		other := make(chan struct{})
		go func() {
			defer close(other)
			var got struct {
				RunID uuid.UUID `json:"run_id"`
			}
			status, err := post(ctx, a.urls[n%len(a.urls)]+path, body, &got)
			if err == nil && (status == http.StatusCreated || status == http.StatusOK) {
				a.note(judge.Asked{What: judge.Request, Job: asked.Job, Key: key, Run: got.RunID, Answered: true})
			}
		}()
		defer func() { <-other }()
	}
	for ctx.Err() == nil && !asked.Answered {
		status, err := post(ctx, a.url()+path, body, &got)
		if asked.Answered = err == nil && (status == http.StatusCreated || status == http.StatusOK); !asked.Answered {
			time.Sleep(100 * time.Millisecond)
		}
	}
	asked.Run = got.RunID
	a.note(asked)
	if !asked.Answered || n%10 != 7 {
		return
	}
	time.Sleep(between(a.r, 0, 300*time.Millisecond))
	cancel := judge.Asked{What: judge.Cancel, Job: asked.Job, Run: asked.Run}
	a.note(cancel) // it may happen whatever is answered
	status, err := post(ctx, a.url()+"/v1/runs/"+asked.Run.String()+"/cancel", map[string]any{}, nil)
	if err == nil && status == http.StatusOK {
		cancel.Answered = true
		a.note(cancel)
	}
}

func (a *asker) note(x judge.Asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, x)
}

func (a *asker) url() string { return a.urls[a.r.IntN(len(a.urls))] }

func post(ctx context.Context, url string, body, into any) (status int, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(answer, into)
	}
	return resp.StatusCode, err
}

// end stops the asking and tells what was asked for.
func (a *asker) end() []judge.Asked {
	a.stop()
	<-a.done
	return a.log
}

// reader follows the log all the while.
type reader struct {
	store *eventstore.Store
	stop  context.CancelFunc
	done  chan struct{}
	got   []judge.Published
}

func startReading(s *eventstore.Store) *reader {
	ctx, stop := context.WithCancel(context.Background())
	r := &reader{store: s, stop: stop, done: make(chan struct{}), got: []judge.Published{}}
	go func() {
		defer close(r.done)
		var at eventstore.Cursor
		const page = 500
		for last := false; ; {
			call, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			events, next, err := s.Read(call, at, page)
			cancel()
			if err == nil {
				at = next
				for _, e := range events {
					r.got = append(r.got, judge.Published{Stream: e.StreamID, Version: e.Version, Type: e.Type})
				}
				if last && len(events) < page {
					return
				}
				if len(events) == page {
					continue
				}
			}
			select {
			case <-ctx.Done():
				last = true
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return r
}

// end reads what is left and tells what was read. The database must be there.
func (r *reader) end() []judge.Published {
	r.stop()
	<-r.done
	return r.got
}
