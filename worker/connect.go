package worker

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// connect opens a connection that outlives any outage. The server need not be there yet.
func connect(url, name string, log *slog.Logger, extra []nats.Option) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name("daybook " + name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		// Nothing may be sent minutes later: a request or an ack fails at once instead.
		nats.ReconnectBufSize(-1),
		// A dead peer is noticed after two pings.
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			// A refused permission shows here only; the request itself times out.
			log.Warn("NATS error", "subject", subject, "error", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected from NATS", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { log.Info("connected to NATS again", "server", c.ConnectedUrlRedacted()) }),
		nats.ConnectHandler(func(c *nats.Conn) { log.Info("connected to NATS", "server", c.ConnectedUrlRedacted()) }),
	}
	conn, err := nats.Connect(url, append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("worker: NATS: %w", err)
	}
	return conn, nil
}
