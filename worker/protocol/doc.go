// Package protocol is the worker protocol: names, wire types and the rules a worker keeps. A worker in any language
// can be written from this page; package worker is the one in Go.
//
// # Transports
//
// An operation is a NATS request to RPCSubject(op), "daybook.v1.rpc.start", or POST HTTPPath(op),
// "/v1/work/start", under an engine's URL. Both carry the same JSON: snake_case keys, RFC 3339 instants in UTC with
// microseconds, durations as Go strings ("1m30s"), ids as lower-case UUID strings. Readers ignore unknown fields.
// HTTP requests carry "Authorization: Bearer TOKEN" where the engine wants tokens (scope work; enqueue takes the scope enqueue too);
// over NATS the permissions of the connection decide. poll exists over HTTP only.
//
// A request of items is answered by {"results": […]}, one result per item in the order of the items, or by
// {"error": {"code", "message"}} if nothing was decided. Over HTTP the first is 200 and the second has a status of its
// own: 400 invalid, 401 or 403 unauthorized, 404 unknown_op, 413 too_large, 500 internal, 503 unavailable. A single result may
// hold such an error too. A request holds at most MaxItems items and MaxRequest bytes. If the reply would exceed what the
// transport carries the answer is too_large: repeat in smaller parts (the repeat of an item gets the same answer).
//
// # Getting work
//
// A lane is a (queue, kind). Each lane has a durable pull consumer on the stream DAYBOOK_DISPATCH; its name is
// ConsumerName(queue, kind, creation time of the stream). Engines create streams and consumers, workers never do: if one is
// missing, wait, read the stream's creation time again, bind again. A message is a JSON array of one or more hints of one
// lane. Without NATS, poll returns hints from PostgreSQL; there is then no message to acknowledge.
//
// # Rules for every worker
//
//  1. Pull only for free slots: messages asked for never exceed the runs the worker could start now. Take the lanes in
//     rotation. A message of several hints may exceed the slots; the surplus waits, unstarted, in the worker.
//  2. From receipt until every run of the message is settled, send +WPI (in progress) at a third of the consumer's ack wait.
//  3. Send start with a random token made for this delivery, and execute only on the status started. The message's
//     time to live and start decide whether a run is still to be executed; the worker's clock does not.
//  4. No reply, an error reply, and an error in a result are not refusals. Repeat with the same token, over the other
//     transport too, with back-off, until there is an answer.
//  5. Note the monotonic clock before each start and heartbeat request. That instant plus lease_remaining of its reply is
//     the local deadline of the run. When it passes, stop the work and send nothing more for the run.
//  6. Renew by heartbeat at a third of the lease, all runs in one request. After one renewal without an answer use the other
//     transport. A refused heartbeat: stop the work, send nothing more for the run. cancel: true asks to stop the work
//     and report how it ended; renew until it has ended. A CancelHint on CancelSubject that names a run in hand is a reason
//     to renew its lease at once; whether to stop is still for the answer to say.
//  7. Stop the work when deadline (what remains of the timeout) has passed since the start request was sent.
//  8. Execute, then report, then acknowledge. complete, fail and snooze are repeated as in rule 4 until the lease is over.
//     recorded, unchanged and failed are final, and so is every refusal.
//  9. Acknowledge a message when its last run is settled: recorded, unchanged, or refused by any operation with any code except
//     unauthorized. On unauthorized, stop pulling and tell somebody; the message stays. A run whose lease ran out
//     without an answer settles without being acknowledged: the engine's reaper goes on with it.
//  10. A message that DecodeHints refuses, or whose Daybook-Protocol header is newer than the worker, is terminated with a
//     reason (+TERM reason), never acknowledged or negatively acknowledged.
//  11. At shutdown stop pulling; let the work end; after a grace period stop it and send release with a reason, which refunds
//     the attempt. For a start without an answer send release too, with the token. Negatively acknowledge (-NAK) only messages of which
//     no start was sent. Retrying is the engine's business: -NAK is not a way to retry.
//  12. Send presence at once and then every 5 seconds; the worker counts as gone after 15. Engines claim no more than the
//     slots of the workers that declare a lane. When draining declare no lanes.
//
// # Idempotency
//
// A run may be executed again after a lost worker, and, after a pause longer than its lease, twice at a time. The run id is the same in
// all attempts: use it as the idempotency key of the effect. complete answers recorded the first time and unchanged
// to a repeat by the same claim; any other outcome for a finished run is refused as terminal. enqueue with a key is idempotent;
// send a key of your own making if the request may be repeated.
package protocol
