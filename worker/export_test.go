package worker

import "time"

// Hurry shortens what a worker waits for before it gives a transport up.
func Hurry(w *Worker) {
	w.timing = timing{nats: 200 * time.Millisecond, http: time.Second, suspectFor: time.Second, pollAfter: 50 * time.Millisecond}
}

// Quiet sets after which silence a lane is polled although it has a consumer.
func Quiet(w *Worker, after time.Duration) { w.timing.quietAfter = after }
