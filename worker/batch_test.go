package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

type echo struct {
	mu    sync.Mutex
	sizes []int
	reply func(op string, request []byte) ([]byte, error)
	gate  chan struct{}
}

func (e *echo) call(_ context.Context, op string, request []byte) ([]byte, error) {
	var req struct{ Items []json.RawMessage }
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.sizes = append(e.sizes, len(req.Items))
	e.mu.Unlock()
	if e.gate != nil {
		<-e.gate
	}
	if e.reply != nil {
		return e.reply(op, request)
	}
	return json.Marshal(protocol.Reply[json.RawMessage]{Results: req.Items})
}

func (e *echo) seen() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.sizes)
}

func newEcho(ctx context.Context, e *echo) (*batcher[json.RawMessage], *group) {
	var g group
	return newBatcher[json.RawMessage](ctx, &g, &caller{http: e, timing: defaultTiming}, "op", `{"items":[`), &g
}

// What arrives while requests are under way goes together, and each item gets its own answer.
func TestBatchesTakeWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{gate: make(chan struct{})}
		b, g := newEcho(t.Context(), e)
		var wg sync.WaitGroup
		for i := range 5000 {
			wg.Go(func() {
				item := fmt.Sprintf(`{"i":%d}`, i)
				if a := b.do(t.Context(), []byte(item)); a.err != nil || string(a.result) != item {
					t.Errorf("item %d: %s %v", i, a.result, a.err)
				}
			})
		}
		synctest.Wait()
		close(e.gate)
		wg.Wait()
		g.close()
		for _, n := range e.sizes {
			if n > protocol.MaxItems {
				t.Errorf("a request of %d items", n)
			}
		}
		if len(e.sizes) > 8 {
			t.Errorf("%d requests for 5000 items: %v", len(e.sizes), e.sizes)
		}
	})
}

// What is posted goes together, each item's result comes with its number, and a batcher that is closed says so.
func TestPostedItemsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		b, g := newEcho(t.Context(), e)
		items := make([][]byte, 100)
		for i := range items {
			items[i] = fmt.Appendf(nil, `{"i":%d}`, i)
		}
		var mu sync.Mutex
		heard := map[int]error{}
		then := func(i int, a answer[json.RawMessage]) {
			mu.Lock()
			defer mu.Unlock()
			if _, twice := heard[i]; twice || a.err == nil && string(a.result) != string(items[i]) {
				t.Errorf("item %d: %s, before: %v", i, a.result, twice)
			}
			heard[i] = a.err
		}
		b.post(items, then)
		synctest.Wait()
		if len(heard) != len(items) || len(e.sizes) != 1 {
			t.Errorf("%d of %d items answered by requests of %v", len(heard), len(items), e.sizes)
		}
		for i, err := range heard {
			if err != nil {
				t.Errorf("item %d: %v", i, err)
			}
		}
		g.close()
		clear(heard)
		b.post(items[:2], then)
		if len(heard) != 2 || !errors.Is(heard[0], errClosed) || !errors.Is(heard[1], errClosed) {
			t.Errorf("a closed batcher said %v", heard)
		}
	})
}

// With a gap the first item leaves at once, what follows within the gap leaves together at its end, nothing waits when there
// are many or when slots are needed, and what is held when the worker stops is told so.
func TestGapBetweenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		b, g := newEcho(t.Context(), e)
		patient := true
		b.gap, b.patient = 10*time.Millisecond, func() bool { return patient }
		answers, refused := 0, 0
		var mu sync.Mutex
		heard := func() int {
			mu.Lock()
			defer mu.Unlock()
			return answers
		}
		post := func(n int) {
			b.post(slices.Repeat([][]byte{[]byte(`{}`)}, n), func(_ int, a answer[json.RawMessage]) {
				mu.Lock()
				defer mu.Unlock()
				answers++
				if a.err != nil {
					refused++
				}
			})
			synctest.Wait()
		}
		post(1)
		time.Sleep(time.Millisecond)
		post(1)
		post(2)
		if !slices.Equal(e.seen(), []int{1}) || heard() != 1 {
			t.Errorf("requests of %v at once, %d answers, want one of 1", e.seen(), heard())
		}
		time.Sleep(9 * time.Millisecond)
		synctest.Wait()
		if !slices.Equal(e.seen(), []int{1, 3}) || heard() != 4 {
			t.Errorf("requests of %v after the gap, %d answers, want 1 and 3", e.seen(), heard())
		}
		post(manyItems)
		if !slices.Equal(e.seen(), []int{1, 3, manyItems}) {
			t.Errorf("requests of %v: many were held back", e.seen())
		}
		patient = false
		if post(1); !slices.Equal(e.seen(), []int{1, 3, manyItems, 1}) {
			t.Errorf("requests of %v: one was held back that a slot depends on", e.seen())
		}
		patient = true
		post(2)
		g.close()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if answers != 4+manyItems+1+2 || refused != 2 {
			t.Errorf("%d answers, %d refused, want those 2 that were held when the worker stopped", answers, refused)
		}
	})
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{gate: make(chan struct{})}
		e.reply = func(_ string, request []byte) ([]byte, error) {
			if len(request) > protocol.MaxRequest {
				t.Errorf("a request of %d bytes", len(request))
			}
			var req struct{ Items []json.RawMessage }
			_ = json.Unmarshal(request, &req)
			return json.Marshal(protocol.Reply[int]{Results: make([]int, len(req.Items))})
		}
		b, g := newEcho(t.Context(), e)
		var wg sync.WaitGroup
		item := []byte(`"` + strings.Repeat("x", 300<<10) + `"`)
		for range 20 {
			wg.Go(func() {
				if a := b.do(t.Context(), item); a.err != nil {
					t.Error(a.err)
				}
			})
		}
		synctest.Wait()
		close(e.gate)
		wg.Wait()
		g.close()
	})
}

func TestAbandonedItemsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{gate: make(chan struct{})}
		b, g := newEcho(t.Context(), e)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range maxFlights {
			wg.Go(func() { b.do(t.Context(), []byte(`1`)) })
			synctest.Wait()
		}
		gone := errors.New("gone")
		ctx2, cancel2 := context.WithCancelCause(ctx)
		wg.Go(func() {
			if a := b.do(ctx2, []byte(`2`)); !errors.Is(a.err, gone) {
				t.Errorf("err %v", a.err)
			}
		})
		synctest.Wait()
		cancel2(gone)
		cancel()
		synctest.Wait()
		close(e.gate)
		wg.Wait()
		g.close()
		if n := len(e.sizes); n != maxFlights {
			t.Errorf("%d requests, want %d", n, maxFlights)
		}
	})
}

func TestTooLargeBatchesAreSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{gate: make(chan struct{})}
		e.reply = func(_ string, request []byte) ([]byte, error) {
			var req struct{ Items []json.RawMessage }
			_ = json.Unmarshal(request, &req)
			if len(req.Items) > 3 {
				return []byte(`{"error":{"code":"too_large","message":"the reply does not fit"}}`), nil
			}
			return json.Marshal(protocol.Reply[json.RawMessage]{Results: req.Items})
		}
		b, g := newEcho(t.Context(), e)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				item := fmt.Sprint(i)
				if a := b.do(t.Context(), []byte(item)); a.err != nil || string(a.result) != item {
					t.Errorf("item %d: %s %v", i, a.result, a.err)
				}
			})
		}
		synctest.Wait()
		close(e.gate)
		wg.Wait()
		g.close()
	})
}

func TestWrongNumberOfResultsIsAnError(t *testing.T) {
	e := &echo{reply: func(string, []byte) ([]byte, error) { return []byte(`{"results":[1,2]}`), nil }}
	b, g := newEcho(t.Context(), e)
	if a := b.do(t.Context(), []byte(`1`)); a.err == nil {
		t.Errorf("took %v for the answer", a)
	}
	g.close()
}

func TestCallerNamesWhatWentWrong(t *testing.T) {
	var c caller
	if _, err := c.do(t.Context(), "op", nil, 0, nil); !errors.Is(err, errNoRoute) {
		t.Errorf("err %v", err)
	}
	for body, want := range map[string]protocol.ErrorCode{
		`{"error":{"code":"too_large","message":"m"}}`: protocol.CodeTooLarge,
		`<html>bad gateway</html>`:                     protocol.CodeUnavailable,
	} {
		if got := errorCode(httpError("op", 502, []byte(body))); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	err := httpError("start", 403, []byte(`{"title":"Forbidden","detail":"token lacks the scope work"}`))
	if errorCode(err) != protocol.CodeUnauthorized || !strings.Contains(err.Error(), "token lacks the scope work") {
		t.Errorf("err %v", err)
	}
}
