package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

const presenceEvery = 5 * time.Second

// presence tells engines what the worker can take, so that they claim no more than that. When draining it declares no lanes.
func (s *session) presence(ctx context.Context) {
	lanes := make([]protocol.Lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		lanes = append(lanes, l.Lane)
	}
	ticker := time.NewTicker(presenceEvery)
	defer ticker.Stop()
	pulling := s.pulling.Done()
	failing := false
	var retry backoff
	for {
		err := s.sayPresence(ctx, lanes)
		switch {
		case ctx.Err() != nil:
			return
		case errorCode(err) == protocol.CodeUnauthorized:
			s.unauthorized(protocol.OpPresence, err)
		case err != nil && !failing:
			s.log.Warn("no engine can be reached", "error", err)
		case err == nil && failing:
			s.log.Info("engine reached again")
		}
		failing = err != nil
		// An engine gives no work to a worker it has not heard of.
		var again <-chan time.Time
		if failing {
			again = time.After(retry.next())
		} else {
			retry.reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-pulling:
			pulling, lanes = nil, []protocol.Lane{}
		case <-ticker.C:
		}
	}
}

func (s *session) sayPresence(ctx context.Context, lanes []protocol.Lane) error {
	request, err := protocol.Encode(protocol.PresenceRequest{
		WorkerID: s.id, Lanes: lanes, Slots: s.cfg.Slots, Version: s.cfg.Version, Host: hostname(),
	})
	if err != nil {
		return err
	}
	_, err = s.caller.do(ctx, protocol.OpPresence, request, presenceEvery, func(b []byte) error {
		var reply protocol.PresenceReply
		if err := json.Unmarshal(b, &reply); err != nil {
			return fmt.Errorf("reply to presence: %w", err)
		}
		if reply.Error != nil {
			return reply.Error
		}
		return nil
	})
	return err
}
