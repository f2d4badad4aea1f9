package natsjs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

const (
	apiGetMessage    = "$JS.API.STREAM.MSG.GET." + protocol.DispatchStream
	errCodeNoMessage = 10037
)

// Dispatched reads the dispatch stream without consuming anything: the claims that
// its messages name, and when the stream was made. Each message is one request, of
// which there are about as many as workers have slots. It is the stream's leader
// that answers: another replica may not have what was acknowledged a moment ago.
// What is acknowledged meanwhile may be among them or not; what is published
// meanwhile is not read, since it may come faster than it is.
func Dispatched(ctx context.Context, js jetstream.JetStream) (claims map[uuid.UUID]bool, made time.Time, err error) {
	s, err := getStream(ctx, js, protocol.DispatchStream)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("stream %s: %w", protocol.DispatchStream, err)
	}
	made, last := s.CachedInfo().Created, s.CachedInfo().State.LastSeq
	claims = map[uuid.UUID]bool{}
	for next := uint64(1); next <= last; {
		m, err := ask(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return nextMessage(ctx, js.Conn(), next) })
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("read stream %s from message %d on: %w", protocol.DispatchStream, next, err)
		}
		if m == nil {
			break
		}
		if hints, err := protocol.DecodeHints(m.Data); err == nil { // workers refuse what cannot be read
			for _, h := range hints {
				claims[h.ClaimID] = true
			}
		}
		next = m.Sequence + 1
	}
	return claims, made, nil
}

// nextMessage is the first message that is there at or after the sequence; nil if
// there is none.
func nextMessage(ctx context.Context, nc *nats.Conn, from uint64) (*jetstream.RawStreamMsg, error) {
	question, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": ">"})
	if err != nil {
		return nil, err
	}
	answer, err := nc.RequestWithContext(ctx, apiGetMessage, question)
	if err != nil {
		return nil, err
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer.Data, &got); {
	case err != nil:
		return nil, err
	case got.Error != nil && got.Error.ErrorCode == errCodeNoMessage:
		return nil, nil
	case got.Error != nil:
		return nil, got.Error
	case got.Message == nil:
		return nil, errors.New("the answer has no message in it")
	}
	return &jetstream.RawStreamMsg{Sequence: got.Message.Sequence, Data: got.Message.Data}, nil
}
