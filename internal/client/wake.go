package client

import (
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/internal/natsjs"
)

// waker tells engines that runs came due or jobs changed, and workers that runs
// were asked to end, so that they need not find out by asking. It is a courtesy:
// whatever goes wrong goes unsaid.
type waker struct{ url, creds string }

// wakeTimeout bounds what the courtesy may cost a command.
const wakeTimeout = 300 * time.Millisecond

// queues tells that runs of the queues came due.
func (w waker) queues(queues ...string) {
	if len(queues) > 0 {
		w.hint(func(hint *natsjs.Waker) { wakeQueues(hint, queues) })
	}
}

// jobs tells that jobs have changed, and that runs of the queues came due by it.
func (w waker) jobs(queues ...string) {
	w.hint(func(hint *natsjs.Waker) {
		hint.WakeJobs()
		wakeQueues(hint, queues)
	})
}

func wakeQueues(hint *natsjs.Waker, queues []string) {
	slices.Sort(queues)
	for _, q := range slices.Compact(queues) {
		hint.Wake(q)
	}
}

func (w waker) cancelled(run uuid.UUID) {
	w.hint(func(hint *natsjs.Waker) { hint.Cancelled(run) })
}

func (w waker) hint(say func(*natsjs.Waker)) {
	if w.url == "" {
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
	say(hint)
	_ = nc.FlushTimeout(wakeTimeout)
}
