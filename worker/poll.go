package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

const (
	pollWait  = 20 * time.Second // an engine holds a poll for, without NATS
	pollShort = 2 * time.Second  // the same while NATS is down
	pollSlack = 5 * time.Second
)

// poll takes work over HTTP for the lanes that cannot be pulled: all of them without NATS, otherwise those whose
// consumer has been out of reach for a while. Engines answer it from PostgreSQL, so it needs no part of NATS.
//
// A consumer that answers and has nothing proves little: the stream may take no messages (one whose disk was full
// does not until its server is started again) or the consumer may have stalled. So a quiet lane is asked for as well,
// without waiting, now and then, and again at once as long as that brings runs.
func (s *session) poll(ctx context.Context) {
	var retry backoff
	failing := false
	for ctx.Err() == nil {
		lanes, next := s.unbound(time.Now())
		var quiet []*lane
		wait := pollWait
		switch {
		case s.conn != nil && len(lanes) > 0:
			wait = pollShort
		case len(lanes) == 0:
			wait = 0
			lanes, quiet, next = s.quiet(time.Now(), next)
		}
		if len(lanes) == 0 {
			s.sleepUntilChange(ctx, next)
			continue
		}
		got, err := s.pollOnce(ctx, lanes, wait)
		if got != pollNew {
			for _, l := range quiet {
				l.heard.Store(time.Now().UnixNano())
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if errorCode(err) == protocol.CodeUnauthorized {
				s.unauthorized(protocol.OpPoll, err)
				return
			}
			if !failing {
				s.log.Warn("cannot poll; trying again", "error", err)
			}
			failing = true
			retry.sleep(ctx)
		case got == pollStale:
			retry.sleep(ctx)
		default:
			failing = false
			retry.reset()
		}
	}
}

// What a poll brought.
const (
	pollNothing = iota // its wait passed, or a lane was bound meanwhile
	pollNew
	pollStale // only runs that are in hand already
)

// pollOnce reserves every free slot for one poll. It is given up, which costs nothing, when a lane is bound.
func (s *session) pollOnce(ctx context.Context, lanes []protocol.Lane, wait time.Duration) (int, error) {
	s.slots.join()
	defer s.slots.leave()
	units := s.slots.reserve(ctx, s.cfg.Slots, true)
	if units == 0 {
		return pollNothing, nil
	}
	defer s.slots.unreserve(units)
	request, err := protocol.Encode(protocol.PollRequest{WorkerID: s.id, Lanes: lanes, Max: units, Wait: protocol.Duration(wait)})
	if err != nil {
		return pollNothing, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait+pollSlack)
	defer cancel()
	given := make(chan struct{})
	watch, unwatch := context.WithCancel(ctx)
	bound := false
	go func() {
		defer close(given)
		select {
		case <-s.change:
			bound = true
			cancel()
		case <-watch.Done():
		}
	}()
	body, err := s.caller.http.call(ctx, protocol.OpPoll, request)
	unwatch()
	<-given
	if err != nil {
		if bound {
			return pollNothing, nil
		}
		return pollNothing, err
	}
	var reply protocol.PollReply
	if err := json.Unmarshal(body, &reply); err != nil {
		return pollNothing, fmt.Errorf("reply to poll: %w", err)
	}
	if reply.Error != nil {
		return pollNothing, reply.Error
	}
	return s.polled(reply.Dispatches), nil
}

// polled takes the runs that are not in hand yet: an engine hands out a claim until it is started.
func (s *session) polled(hints []protocol.Hint) int {
	var tasks []*task
	seen := make(map[protocol.Claim]bool, len(hints))
	for _, h := range hints {
		c := protocol.Claim{RunID: h.RunID, ClaimID: h.ClaimID}
		if !seen[c] && !s.holds(h.ClaimID) {
			tasks = append(tasks, newTask(h, nil))
		}
		seen[c] = true
	}
	switch {
	case len(hints) == 0:
		return pollNothing
	case len(tasks) == 0:
		return pollStale
	}
	s.take(tasks)
	return pollNew
}

// unbound are the lanes to poll; next is when another one may become one, if it stays lost.
func (s *session) unbound(now time.Time) (lanes []protocol.Lane, next time.Time) {
	for _, l := range s.lanes {
		if s.conn == nil {
			lanes = append(lanes, l.Lane)
			continue
		}
		if l.bound.Load() {
			continue
		}
		at := time.Unix(0, l.lost.Load()).Add(s.caller.timing.pollAfter)
		if !at.After(now) {
			lanes = append(lanes, l.Lane)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return lanes, next
}

// quiet are the lanes with a consumer that has brought nothing for a while; next is when there may be another one, or
// what it was if that is sooner.
func (s *session) quiet(now, next time.Time) (lanes []protocol.Lane, quiet []*lane, _ time.Time) {
	after := s.caller.timing.quietAfter
	if after == 0 {
		return nil, nil, next
	}
	for _, l := range s.lanes {
		if !l.bound.Load() {
			continue
		}
		at := time.Unix(0, l.heard.Load()).Add(after)
		if !at.After(now) {
			lanes, quiet = append(lanes, l.Lane), append(quiet, l)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return lanes, quiet, next
}

func (s *session) sleepUntilChange(ctx context.Context, next time.Time) {
	var at <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		at = t.C
	}
	select {
	case <-ctx.Done():
	case <-s.change:
	case <-at:
	}
}
