// Package worker executes runs of Daybook jobs in your program, and asks for runs.
//
//	type SendEmail struct{ To, Subject string }
//
//	w := worker.New(worker.Config{NATSURL: natsURL, URL: engineURL, Queue: "mail", Slots: 8})
//	worker.Handle(w, "send-email", func(ctx context.Context, run worker.Run[SendEmail]) error {
//		return mail.Send(ctx, run.Args.To, run.Args.Subject, run.ID) // run.ID is the idempotency key
//	})
//	err := w.Run(ctx) // blocks; drains on cancel
//
// # What is promised
//
// A run is delivered at least once until it has ended, and only one end of it is recorded. A handler may therefore be executed more than
// once for a run: after a crash, after a lease that could not be renewed, and, when a machine stalls for longer than
// the lease, while another execution of the same run is still going on. Run.ID is the same each time; use it as the idempotency
// key, or make the effect idempotent by nature, and it is applied effectively once.
//
// # What a handler returns
//
//	nil               the run has succeeded
//	Fatal(err)        the run has failed; no attempt is left to it
//	Later(d)          the run is executed again after d; the attempt is not counted
//	RetryAfter(err, d) the attempt failed; the next follows after d
//	any other error   the attempt failed; the next follows by the job's retry policy
//	a panic           as any other error, with the stack
//
// Arguments that do not fit the handler's type fail the run like Fatal. An error that has a method ErrorType() string is shown
// under that name, others under their Go type.
//
// # When the context ends
//
// context.Cause(ctx) tells why: ErrCancelled, ErrTimeout, ErrLeaseLost or ErrDraining. Return soon. After ErrCancelled an error makes
// the run cancelled; after ErrTimeout it is retried; after ErrDraining it is executed elsewhere and the attempt is not counted; in
// all three nil still means success. After ErrLeaseLost nothing that is returned counts any more.
//
// # Outages
//
// Runs come from NATS JetStream; leases are renewed and outcomes recorded over NATS, or over HTTP when NATS does not
// answer. With both Config.NATSURL and Config.URL set, a worker keeps its runs, and takes new ones by polling, while NATS
// is down. With URL alone it needs no NATS. A worker that can reach no engine stops its handlers when their leases are over.
//
// The protocol, for workers in other languages, is in package protocol.
package worker
