package worker

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/worker/protocol"
)

// scripted is a transport that answers heartbeats as a test says.
type scripted struct {
	mu       sync.Mutex
	requests [][]protocol.HeartbeatItem
	at       []time.Time
	answer   func(n int, item protocol.HeartbeatItem) (protocol.HeartbeatResult, error)
	delay    time.Duration
}

func (s *scripted) call(ctx context.Context, op string, request []byte) ([]byte, error) {
	var req protocol.HeartbeatRequest
	if err := json.Unmarshal(request, &req); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests = append(s.requests, req.Items)
	s.at = append(s.at, time.Now())
	n := len(s.requests)
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var reply protocol.Reply[protocol.HeartbeatResult]
	for _, it := range req.Items {
		r, err := s.answer(n, it)
		if err != nil {
			return nil, err
		}
		reply.Results = append(reply.Results, r)
	}
	return json.Marshal(reply)
}

// seen are the requests so far, and when they came.
func (s *scripted) seen() ([][]protocol.HeartbeatItem, []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), slices.Clone(s.at)
}

func (s *scripted) count() int {
	requests, _ := s.seen()
	return len(requests)
}

func renewed(d time.Duration) protocol.HeartbeatResult {
	return protocol.HeartbeatResult{LeaseRemaining: protocol.Duration(d)}
}

func newClaim() protocol.Claim { return protocol.Claim{RunID: uuid.New(), ClaimID: uuid.New()} }

// keep runs a keeper over the transports for the length of a test.
func keep(t *testing.T, c *caller) *keeper {
	c.timing = defaultTiming
	ctx, cancel := context.WithCancel(t.Context())
	k := newKeeper(ctx, c, slog.New(slog.DiscardHandler), func(err error) { t.Errorf("not authorized: %v", err) })
	var g group
	g.start(func() { k.run(ctx, &g) })
	t.Cleanup(func() {
		cancel()
		g.close()
	})
	return k
}

func TestCancelHintDuringARenewalAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := newClaim()
		var k *keeper
		tr := &scripted{answer: func(n int, _ protocol.HeartbeatItem) (protocol.HeartbeatResult, error) {
			if n == 1 {
				k.cancelHinted([]uuid.UUID{claim.RunID}) // after the engine looked, before its answer arrived
			}
			r := renewed(time.Minute)
			r.Cancel = n > 1
			return r, nil
		}}
		k = keep(t, &caller{http: tr})
		begin := time.Now()
		l := k.hold(claim, begin, time.Minute)
		stopped := make(chan error, 1)
		l.onStop(func(cause error) { stopped <- cause })
		if cause := <-stopped; !errors.Is(cause, ErrCancelled) {
			t.Errorf("stopped by %v", cause)
		}
		if waited := time.Since(begin); waited != 20*time.Second {
			t.Errorf("stopped after %v, want with the first renewal, after 20s", waited)
		}
		l.end()
	})
}

func TestLeasesAreRenewedTogetherAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &scripted{answer: func(int, protocol.HeartbeatItem) (protocol.HeartbeatResult, error) { return renewed(time.Minute), nil }}
		k := keep(t, &caller{http: tr})
		begin := time.Now()
		var leases []*lease
		for range 3 {
			leases = append(leases, k.hold(newClaim(), time.Now(), time.Minute))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Hour)
		for _, l := range leases {
			if err := l.ctx.Err(); err != nil {
				t.Fatalf("lease ended: %v", context.Cause(l.ctx))
			}
			l.end()
		}
		requests, at := tr.seen()
		if first := at[0].Sub(begin); first != 20*time.Second {
			t.Errorf("first renewal after %v, want a third of a minute", first)
		}
		for i, r := range requests {
			if len(r) != 3 {
				t.Fatalf("request %d renews %d of 3 leases", i, len(r))
			}
		}
		if n := tr.count(); n < 175 || n > 185 {
			t.Errorf("%d requests in an hour, want about one in 20 s", n)
		}
	})
}

// The database measured the remaining lease some time after the request was sent: counting from the reply would trust
// the lease for longer than it lasts.
func TestDeadlineCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("no reply")
		tr := &scripted{delay: 4 * time.Second}
		tr.answer = func(n int, _ protocol.HeartbeatItem) (protocol.HeartbeatResult, error) {
			if n > 1 {
				return protocol.HeartbeatResult{}, lost
			}
			return renewed(time.Minute), nil
		}
		k := keep(t, &caller{http: tr})
		begin := time.Now()
		l := k.hold(newClaim(), begin, time.Minute)
		<-l.ctx.Done()
		if !errors.Is(context.Cause(l.ctx), ErrLeaseLost) {
			t.Errorf("cause %v", context.Cause(l.ctx))
		}
		// Renewed once, by the request sent at 20 s.
		if got := time.Since(begin); got != 80*time.Second {
			t.Errorf("lease ended after %v, want 20 s + 1 m", got)
		}
		tries := tr.count()
		if tries < 5 {
			t.Errorf("%d tries to renew", tries)
		}
		time.Sleep(time.Hour)
		if tr.count() > tries+1 {
			t.Errorf("still renewing a lost lease: %d requests, %d before", tr.count(), tries)
		}
		l.end()
	})
}

func TestOneMissedRenewalGoesOverTheOtherTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := &scripted{delay: time.Hour} // a partition: nothing fails, nothing answers
		alive := &scripted{answer: func(int, protocol.HeartbeatItem) (protocol.HeartbeatResult, error) { return renewed(time.Minute), nil }}
		k := keep(t, &caller{nats: &natsRoute{transport: dead, suspectFor: defaultTiming.suspectFor}, http: alive})
		l := k.hold(newClaim(), time.Now(), time.Minute)
		time.Sleep(10 * time.Minute)
		if l.ctx.Err() != nil {
			t.Errorf("lease ended: %v", context.Cause(l.ctx))
		}
		if alive.count() == 0 {
			t.Error("HTTP was not tried")
		}
		l.end()
	})
}

func TestOneBadItemDoesNotCostTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good, gone, wanted := newClaim(), newClaim(), newClaim(), newClaim()
		tr := &scripted{}
		tr.answer = func(_ int, it protocol.HeartbeatItem) (protocol.HeartbeatResult, error) {
			switch it.ClaimID {
			case bad.ClaimID:
				return protocol.HeartbeatResult{Error: &protocol.Error{Code: protocol.CodeInternal}}, nil
			case gone.ClaimID:
				return protocol.HeartbeatResult{Status: protocol.StatusRefused, Code: protocol.StaleClaim}, nil
			case wanted.ClaimID:
				return protocol.HeartbeatResult{Status: protocol.StatusRefused, Code: protocol.Cancelled}, nil
			}
			return renewed(time.Minute), nil
		}
		k := keep(t, &caller{http: tr})
		now := time.Now()
		causes := map[protocol.Claim]error{bad: ErrLeaseLost, good: nil, gone: ErrLeaseLost, wanted: ErrCancelled}
		refused := map[protocol.Claim]bool{gone: true, wanted: true}
		leases := map[protocol.Claim]*lease{}
		for c := range causes {
			leases[c] = k.hold(c, now, time.Minute)
		}
		time.Sleep(5 * time.Minute)
		for c, want := range causes {
			l := leases[c]
			if got := context.Cause(l.ctx); !errors.Is(got, want) || (want == nil) != (got == nil) {
				t.Errorf("cause %v, want %v", got, want)
			}
			if got := l.end(); got != refused[c] {
				t.Errorf("refused %v, want %v", got, refused[c])
			}
		}
	})
}

// A heartbeat that crosses the complete of its run finds the claim gone. That is no lost lease.
func TestRefusalThatCrossesTheOutcomeIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &scripted{answer: func(int, protocol.HeartbeatItem) (protocol.HeartbeatResult, error) {
			return protocol.HeartbeatResult{Status: protocol.StatusRefused, Code: protocol.Terminal}, nil
		}}
		k := keep(t, &caller{http: tr})
		l := k.hold(newClaim(), time.Now(), time.Minute)
		l.report()
		time.Sleep(30 * time.Second)
		if tr.count() == 0 || l.ctx.Err() != nil {
			t.Errorf("after %d heartbeats the lease ended: %v", tr.count(), context.Cause(l.ctx))
		}
		if l.end() {
			t.Error("counted as refused")
		}
	})
}

func TestProgressBringsTheHeartbeatForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &scripted{answer: func(int, protocol.HeartbeatItem) (protocol.HeartbeatResult, error) { return renewed(time.Minute), nil }}
		k := keep(t, &caller{http: tr})
		l := k.hold(newClaim(), time.Now(), time.Minute)
		for i := range 100 {
			l.progress(float64(i)/100, "")
			time.Sleep(100 * time.Millisecond)
		}
		l.end()
		if n := tr.count(); n < 3 || n > 6 {
			t.Errorf("%d heartbeats in 10 s of news, want one in 2 s", n)
		}
	})
}

// An engine may grant less than before, near the end of the job's timeout for instance.
func TestShorterRenewalEndsSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &scripted{}
		tr.answer = func(n int, _ protocol.HeartbeatItem) (protocol.HeartbeatResult, error) {
			if n > 1 {
				return protocol.HeartbeatResult{}, errors.New("no reply")
			}
			return renewed(5 * time.Second), nil
		}
		k := keep(t, &caller{http: tr})
		begin := time.Now()
		l := k.hold(newClaim(), begin, time.Minute)
		<-l.ctx.Done()
		if got := time.Since(begin); got != 25*time.Second {
			t.Errorf("lease ended after %v, want 20 s + 5 s", got)
		}
		l.end()
	})
}
