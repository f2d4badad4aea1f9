package engine

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/internal/crashpoint"
	"github.com/daybookhq/daybook/worker/protocol"
)

// rpc serves the worker protocol over NATS request and reply. The replicas share
// the calls through a queue group.
type rpc struct {
	nc      *nats.Conn
	service *Service
	log     *slog.Logger
}

const (
	// rpcConcurrency bounds the calls that wait for their transactions. Beyond
	// it a call is answered at once that it should come again.
	rpcConcurrency = 512
	rpcTimeout     = 20 * time.Second
)

// Run serves until ctx ends, then lets the calls under way finish.
func (r *rpc) Run(ctx context.Context) error {
	slots := make(chan struct{}, rpcConcurrency)
	var calls sync.WaitGroup
	sub, err := r.nc.QueueSubscribe(protocol.RPCSubjects, protocol.RPCQueueGroup, func(m *nats.Msg) {
		op := strings.TrimPrefix(m.Subject, protocol.RPCSubject(""))
		select {
		case slots <- struct{}{}:
		default:
			r.answer(m, encode(protocol.PresenceReply{Error: &protocol.Error{Code: protocol.CodeUnavailable, Message: errBusy.Error()}}))
			return
		}
		calls.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rpcTimeout)
			defer cancel()
			reply := r.service.Handle(ctx, op, "", m.Data)
			if crashpoint.Err(crashpoint.RPCPreReply) != nil {
				return // as if the reply had been lost
			}
			r.answer(m, reply)
		})
	})
	if err != nil {
		return err
	}
	if err := sub.SetPendingLimits(4*rpcConcurrency, 256<<20); err != nil {
		return err
	}
	<-ctx.Done()
	err = sub.Unsubscribe()
	calls.Wait()
	if err != nil && !r.nc.IsClosed() {
		r.log.Debug("unsubscribe", "error", err)
	}
	return nil
}

func (r *rpc) answer(m *nats.Msg, reply []byte) {
	if limit := r.nc.MaxPayload(); limit > 0 && int64(len(reply)) > limit {
		reply = encode(protocol.PresenceReply{Error: &protocol.Error{Code: protocol.CodeTooLarge, Message: "the reply exceeds what NATS carries: send fewer items"}})
	}
	if err := m.Respond(reply); err != nil {
		r.log.Debug("reply not sent; the worker will repeat", "subject", m.Subject, "error", err)
	}
}
