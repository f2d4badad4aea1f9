package protocol

import (
	"fmt"
	"strconv"
	"time"
)

// JetStream streams. Engines create them; workers only read.
const (
	DispatchStream = "DAYBOOK_DISPATCH" // work for workers: one message is an array of hints of one lane
	EventsStream   = "DAYBOOK_EVENTS"   // facts for subscribers: CloudEvents 1.0, structured JSON
	DeadStream     = "DAYBOOK_DEAD"     // parked dispatches, and advisories about messages given up
)

// Subject filters of the streams.
const (
	DispatchSubjects = "daybook.v1.dispatch.>"
	EventSubjects    = "daybook.v1.event.>"
	DeadSubjects     = "daybook.v1.dead.>"
	RPCSubjects      = "daybook.v1.rpc.>"
)

const (
	dispatchPrefix = "daybook.v1.dispatch."
	eventPrefix    = "daybook.v1.event."
	deadPrefix     = "daybook.v1.dead."
	rpcPrefix      = "daybook.v1.rpc."
	wakePrefix     = "daybook.v1.wake."
)

// CancelSubject is the core NATS subject that carries a CancelHint to every worker.
const CancelSubject = "daybook.v1.cancel"

// RPCQueueGroup is the queue group in which engine replicas subscribe to RPC subjects, so that one of them answers.
const RPCQueueGroup = "daybook-rpc"

// Headers of dispatch and event messages. Header names are case-sensitive in NATS.
const (
	HeaderMsgID          = "Nats-Msg-Id"          // one per claim (and generation), never per run
	HeaderTTL            = "Nats-TTL"             // remaining dispatch lease
	HeaderExpectedStream = "Nats-Expected-Stream" // catches a subject bound to the wrong stream
	HeaderContentType    = "Content-Type"
	HeaderProtocol       = "Daybook-Protocol"  // ProtocolVersion of the body; absent means "1"
	HeaderReplayID       = "Daybook-Replay-Id" // names a deliberate replay of events to one subscription
	HeaderTraceparent    = "traceparent"       // W3C trace context
)

// Header values.
const (
	ProtocolVersion       = "1"
	ContentTypeJSON       = "application/json"
	ContentTypeCloudEvent = "application/cloudevents+json"
)

// HTTPPath is the path of a worker operation under an engine's base URL.
func HTTPPath(op string) string { return "/v1/work/" + op }

// EventPartitions is the number of partitions of the event feed.
const EventPartitions = 16

// DispatchSubject is the subject of the lane (queue, kind). Both must be valid tokens.
func DispatchSubject(queue, kind string) string { return dispatchPrefix + queue + "." + kind }

// DeadSubject is the subject of parked dispatches of the lane (queue, kind).
func DeadSubject(queue, kind string) string { return deadPrefix + queue + "." + kind }

// EventSubject is the subject of events of one type ("run-claimed") in a partition, 0 to EventPartitions-1.
func EventSubject(partition int, typeToken string) string {
	return eventPrefix + strconv.Itoa(partition) + "." + typeToken
}

// RPCSubject is the request subject of a worker operation such as OpStart.
func RPCSubject(op string) string { return rpcPrefix + op }

// WakeSubject is the core NATS subject on which engines tell each other that a queue has work.
func WakeSubject(queue string) string { return wakePrefix + queue }

// WakeJobsSubject is the core NATS subject on which engines and the command line tell engines that jobs have changed:
// an instant may have come due or come nearer. '+' cannot occur in a queue's name.
const WakeJobsSubject = wakePrefix + "+jobs"

// ConsumerName is the durable pull consumer of the lane (queue, kind) on the dispatch stream that was created at
// streamCreated, as the server reports it.
//
// Acknowledgements are addressed by stream, consumer and sequence, and sequences start again when a stream is
// recreated. The stream's age in the name keeps the ack of an old incarnation from settling a message of a new
// one. '+' cannot occur in a token, so no two lanes share a name.
func ConsumerName(queue, kind string, streamCreated time.Time) string {
	return queue + "+" + kind + "+" + strconv.FormatInt(streamCreated.UnixMilli(), 36)
}

// MaxToken is the longest token, in bytes.
const MaxToken = 64

// ValidToken reports whether s can be a queue, a kind or another token of a subject: 1 to 64 of [a-z0-9_-].
func ValidToken(s string) error {
	if s == "" {
		return fmt.Errorf("empty token: want 1 to %d characters of [a-z0-9_-]", MaxToken)
	}
	if len(s) > MaxToken {
		return fmt.Errorf("token %.20q… is %d bytes long: at most %d are allowed", s, len(s), MaxToken)
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return fmt.Errorf("token %q has %q at byte %d: only [a-z0-9_-] is allowed", s, c, i)
		}
	}
	return nil
}
