package client

import (
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/internal/natsjs"
)

// waker tells engines that runs came due, so that they start at once and not
// with the next poll. It is a courtesy: whatever goes wrong goes unsaid.
type waker struct{ url, creds string }

// wakeTimeout bounds what the courtesy may cost a command.
const wakeTimeout = 300 * time.Millisecond

func (w waker) queues(queues ...string) {
	if w.url == "" || len(queues) == 0 {
		return
	}
	nc, err := natsjs.Connect(natsjs.ConnectOptions{
		URL: w.url, CredsFile: w.creds, Name: "daybook-cli", Logger: slog.New(slog.DiscardHandler),
		Extra: []nats.Option{nats.RetryOnFailedConnect(false), nats.NoReconnect(), nats.Timeout(wakeTimeout)},
	})
	if err != nil {
		return
	}
	defer nc.Close()
	hint := natsjs.NewWaker(nc)
	defer hint.Close()
	seen := map[string]bool{}
	for _, q := range queues {
		if !seen[q] {
			seen[q] = true
			hint.Wake(q)
		}
	}
	_ = nc.FlushTimeout(wakeTimeout)
}
