package natsjs

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An answer counts as stored only if it says so.
func TestAnswersOfTheServer(t *testing.T) {
	var full *jetstream.APIError
	for body, want := range map[string]struct {
		duplicate bool
		err       error
	}{
		`{"stream":"S","seq":1}`:                                       {},
		`{"stream":"S", "seq":18446744073709551615}`:                   {},
		`{"stream":"S", "domain":"hub", "seq":7}`:                      {},
		`{"stream":"S", "seq":7,"duplicate": true}`:                    {duplicate: true},
		`{"seq":7,"stream":"S","duplicate":false}`:                     {},
		`{"error":{"code":503,"err_code":10077,"description":"full"}}`: {err: full},
		`{"error":{"code":400,"err_code":1},"stream":"S","seq":0}`:     {err: full},
		`{"stream":"S","seq":1,"error":{"code":503,"err_code":10077}}`: {err: full},
		`{"stream":"","seq":1}`:                                        {err: jetstream.ErrInvalidJSAck},
		`{"stream":"S","seq":1`:                                        {err: jetstream.ErrInvalidJSAck},
		`{"stream":"S","seq":}`:                                        {err: jetstream.ErrInvalidJSAck},
		`{}`:                                                           {err: jetstream.ErrInvalidJSAck},
		`OK`:                                                           {err: jetstream.ErrInvalidJSAck},
		``:                                                             {err: jetstream.ErrInvalidJSAck},
	} {
		got := decodeAnswer(&nats.Msg{Data: []byte(body)})
		failed := got.err != nil
		if errors.Is(want.err, jetstream.ErrInvalidJSAck) {
			failed = !errors.Is(got.err, jetstream.ErrInvalidJSAck)
		} else if want.err != nil {
			failed = !errors.As(got.err, &full)
		}
		if got.duplicate != want.duplicate || failed {
			t.Errorf("%s: duplicate %v, %v", body, got.duplicate, got.err)
		}
	}
	if got := decodeAnswer(&nats.Msg{Header: nats.Header{"Status": {"503"}}}); !errors.Is(got.err, jetstream.ErrNoStreamResponse) {
		t.Errorf("nobody is there: %v", got.err)
	}
}

// What comes twice, or belongs to no message of the wave, ends no wait.
func TestFlightCountsEachMessageOnce(t *testing.T) {
	f := &flight{found: make([]*answer, 2), left: 2, done: make(chan struct{})}
	f.settle(0, answer{})
	f.settle(0, answer{err: errors.New("late")})
	f.settle(2, answer{})
	f.settle(-1, answer{})
	select {
	case <-f.done:
		t.Fatal("over with one message unanswered")
	default:
	}
	f.settle(1, answer{duplicate: true})
	<-f.done
	if f.found[0].err != nil || !f.found[1].duplicate {
		t.Errorf("%+v %+v", f.found[0], f.found[1])
	}
}
