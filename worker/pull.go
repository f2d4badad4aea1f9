package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	maxPull     = 256           // messages in one pull
	pullGrace   = time.Second   // for the end of a pull to arrive
	statusName  = "Status"      // header of what is no message
	statusText  = "Description" // header with the reason
	nextPrefix  = "$JS.API.CONSUMER.MSG.NEXT."
	ackPayload  = "+ACK"   // done with it
	nakPayload  = "-NAK"   // give it to somebody else
	workPayload = "+WPI"   // still working on it
	termPayload = "+TERM " // never deliver it again; a reason follows
)

// puller asks a consumer for messages. One subscription serves all pulls of a lane: a late message of an earlier pull
// is still received, and at shutdown nothing that was sent to us is left to wait for its redelivery.
type puller struct {
	conn  *nats.Conn
	inbox string
	sub   *nats.Subscription
	in    chan *nats.Msg
	last  uint64 // number of the last pull
}

func newPuller(conn *nats.Conn) (*puller, error) {
	p := &puller{conn: conn, inbox: conn.NewInbox(), in: make(chan *nats.Msg, 2*maxPull+64)}
	sub, err := conn.ChanSubscribe(p.inbox+".*", p.in)
	if err != nil {
		return nil, err
	}
	p.sub = sub
	return p, nil
}

// pull asks for n messages, waiting up to wait for the first (0: only those there now), and passes them to receive. It
// returns when all have come, when the server says that no more will, or when ctx ends; messages that are still
// to come then are received by the next pull or by close.
func (p *puller) pull(ctx context.Context, stream, consumer string, n int, wait time.Duration, receive func(*nats.Msg)) (got int, err error) {
	n = min(n, maxPull)
	p.last++
	reply := p.inbox + "." + strconv.FormatUint(p.last, 10)
	request := fmt.Appendf(nil, `{"batch":%d,"expires":%d}`, n, wait.Nanoseconds())
	if wait == 0 {
		request = fmt.Appendf(nil, `{"batch":%d,"no_wait":true}`, n)
	}
	if err := p.conn.PublishRequest(nextPrefix+stream+"."+consumer, reply, request); err != nil {
		return 0, err
	}
	limit := time.NewTimer(wait + pullGrace)
	defer limit.Stop()
	for got < n {
		select {
		case m := <-p.in:
			status := m.Header.Get(statusName)
			switch {
			case status == "":
				got++
				receive(m)
			case m.Subject != reply || status == "100":
				// The end of an earlier pull, or a heartbeat.
			case status == "404" || status == "408":
				return got, nil
			default:
				return got, fmt.Errorf("pull from consumer %s: status %s %s", consumer, status, cleanStatus(status, m.Header.Get(statusText)))
			}
		case <-ctx.Done():
			return got, nil
		case <-limit.C:
			// The server ends every pull. A connection that looks alive and brings no end is not to be relied on.
			return got, fmt.Errorf("pull from consumer %s: no answer", consumer)
		}
	}
	return got, nil
}

func cleanStatus(status, text string) string {
	if status == "503" {
		return "it does not exist, or JetStream is down"
	}
	return strings.ToLower(text)
}

// close ends the subscription and passes on what had been sent by then.
func (p *puller) close(receive func(*nats.Msg)) {
	if err := p.sub.Drain(); err != nil {
		return
	}
	// The server has handled the end of the subscription when it answers; whatever it sent before is in the channel.
	if err := p.conn.FlushTimeout(pullGrace); err != nil {
		return
	}
	for {
		select {
		case m := <-p.in:
			if m.Header.Get(statusName) == "" {
				receive(m)
			}
		default:
			return
		}
	}
}
