// Package explorer is a model of what may happen to one run, small enough to
// look at every state it can reach. Its test shows that the whole protocol keeps
// the guarantee, and that each of its guards is needed: with any one of them
// taken away the search finds a state that must not be, and prints a shortest
// way there.
//
// Modelled are the run's row (pending, claimed, running, final), its outbox
// pack, the relay's memory, the broker's copies and the message ids it
// remembers, two worker slots, both leases, the reaper and a cancel. Processes
// die at any moment and lose their memory; requests, replies and PubAcks are
// lost; a start may arrive late; messages are delivered again; the stream is
// lost and made anew. Faults are not counted. There are finitely many states all
// the same, since a claim id is used again once nothing names it, which for a
// random UUID comes to the same, and since ids and slots are interchangeable.
//
// Where to look in the code:
//
//	claim            eventstore/claim.go
//	relay            outbox/doc.go
//	start, outcomes  domain/run_decide.go, eventstore/execute.go
//	heartbeat        eventstore/expire.go, worker/lease.go
//	reaper           eventstore/expire.go
//	re-arm           eventstore/rearm.go
//	worker           worker/protocol/doc.go, rules 2 to 11
//
// Left out: several hints in a message, which share only its acknowledgement;
// hints polled over HTTP, which are deliveries without a message; snoozes, which
// are drained attempts that come due later; waiting for a place; time itself.
// Instead a lease may end at any moment, or under the dominance of the leases
// only once nothing in good order is left that it would have to outlive.
package explorer
