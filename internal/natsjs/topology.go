package natsjs

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/worker/protocol"
)

const allSubjects = "daybook.v1.>"

// defaultDispatchMaxAge catches messages that lost their TTL; it must not be shorter than a dispatch lease.
const defaultDispatchMaxAge = 15 * time.Minute

// eventDuplicates is how long the server remembers the ids of events, which takes about 140 bytes of its memory for
// each: at 20,000 events a second a third of a GiB. It is longer than whoever takes the feed over may repeat what the
// owner before published: a lease of 30 s and what is published in it. What is repeated later consumers tell by the id.
const eventDuplicates = 2 * time.Minute

const _ = uint64(defaultDispatchMaxAge - domain.DefaultDispatchLease) // or this does not compile

// StreamLimits bounds one stream.
type StreamLimits struct {
	MaxMsgs    int64         // -1: none
	MaxBytes   int64         // on disk per replica
	MaxMsgSize int32         // bytes, headers included
	MaxAge     time.Duration // 0: none
	Duplicates time.Duration // how long a Nats-Msg-Id is remembered; at most MaxAge
}

// Topology is what Ensure creates and compares: the three streams, and what every lane's consumer has in common.
// The names, subjects and policies are fixed; these are the settings that depend on the installation.
type Topology struct {
	Replicas int // 1, 3 or 5
	Dispatch StreamLimits
	Events   StreamLimits
	Dead     StreamLimits

	MaxLanes      int // consumers on the dispatch stream, one per (queue, kind)
	MaxAckPending int // unacknowledged messages of one lane, all workers together: at least twice their slots
	MaxWaiting    int // concurrent pulls of one lane; can never be changed on an existing consumer

	Lease domain.LeaseBudget // its AckWait and MaxDeliver are the consumers'
}

// ProductionTopology is for a NATS cluster: three replicas.
func ProductionTopology() Topology {
	return Topology{
		Replicas: 3,
		Dispatch: StreamLimits{MaxMsgs: 1_000_000, MaxBytes: 1 << 30, MaxMsgSize: 256 << 10, // protocol.MaxHints fit
			MaxAge: defaultDispatchMaxAge, Duplicates: 5 * time.Minute},
		Events: StreamLimits{MaxMsgs: -1, MaxBytes: 4 << 30, MaxMsgSize: 512 << 10,
			MaxAge: 72 * time.Hour, Duplicates: eventDuplicates},
		Dead: StreamLimits{MaxMsgs: -1, MaxBytes: 512 << 20, MaxMsgSize: 256 << 10,
			MaxAge: 14 * 24 * time.Hour, Duplicates: 2 * time.Minute},
		MaxLanes:      1000,
		MaxAckPending: 10_000,
		MaxWaiting:    8192,
		Lease:         domain.DefaultLeaseBudget(),
	}
}

// EmbeddedTopology is for a server inside this process: one replica, and limits that fit ServerOptions' default
// MaxStore, from which the server reserves them.
func EmbeddedTopology() Topology {
	t := ProductionTopology()
	t.Replicas = 1
	t.Dispatch.MaxBytes = 256 << 20
	t.Events.MaxBytes = 1 << 30
	t.Dead.MaxBytes = 128 << 20
	return t
}

// Check tests the topology against itself, before any server is asked.
func (t Topology) Check() error {
	if t.Replicas != 1 && t.Replicas != 3 && t.Replicas != 5 {
		return fmt.Errorf("NATS topology: %d replicas; want 1, 3 or 5", t.Replicas)
	}
	if t.MaxLanes < 1 || t.MaxAckPending < 1 || t.MaxWaiting < 1 {
		return fmt.Errorf("NATS topology: max lanes %d, max ack pending %d and max waiting %d must all be positive",
			t.MaxLanes, t.MaxAckPending, t.MaxWaiting)
	}
	for _, s := range t.streams() {
		if s.MaxBytes <= 0 || s.MaxMsgSize <= 0 {
			return fmt.Errorf("NATS topology: stream %s: max bytes %d and max message size %d must be positive",
				s.Name, s.MaxBytes, s.MaxMsgSize)
		}
		if s.MaxMsgs == 0 || s.MaxMsgs < -1 {
			return fmt.Errorf("NATS topology: stream %s: max messages %d; want a positive number, or -1 for no limit", s.Name, s.MaxMsgs)
		}
		if s.Duplicates <= 0 || s.MaxAge > 0 && s.Duplicates > s.MaxAge {
			return fmt.Errorf("NATS topology: stream %s: duplicate window %s must be positive and at most max age %s",
				s.Name, s.Duplicates, s.MaxAge)
		}
	}
	if err := t.Lease.Validate(); err != nil {
		return fmt.Errorf("NATS topology: %w", err)
	}
	return t.checkTTL(t.Dispatch.MaxAge, t.Dispatch.Duplicates)
}

// checkTTL tests the stream's clocks against the longest TTL a dispatch can get, its whole lease.
func (t Topology) checkTTL(maxAge, duplicates time.Duration) error {
	if maxAge > 0 && maxAge < t.Lease.DispatchLease {
		return fmt.Errorf("stream %s: max age %s must not be shorter than the dispatch lease %s: messages would vanish while their claim lives",
			protocol.DispatchStream, maxAge, t.Lease.DispatchLease)
	}
	if duplicates < t.Lease.DispatchLease {
		return fmt.Errorf("stream %s: duplicate window %s must not be shorter than the dispatch lease %s: a relay may repeat a publish that long",
			protocol.DispatchStream, duplicates, t.Lease.DispatchLease)
	}
	return nil
}

// streams are the complete configurations. Whatever the server would fill in is written out, so that comparing is
// plain equality.
func (t Topology) streams() []jetstream.StreamConfig {
	dispatch := t.stream(protocol.DispatchStream, "Daybook: work for workers, one message is an array of hints of one lane", t.Dispatch)
	dispatch.Subjects = []string{protocol.DispatchSubjects}
	dispatch.Retention = jetstream.WorkQueuePolicy
	dispatch.Discard = jetstream.DiscardNew // DiscardOld would drop work while its publisher gets an ack
	dispatch.AllowMsgTTL = true
	dispatch.MaxConsumers = t.MaxLanes

	events := t.stream(protocol.EventsStream, "Daybook: facts for subscribers, CloudEvents 1.0", t.Events)
	events.Subjects = []string{protocol.EventSubjects}
	events.Compression = jetstream.S2Compression

	dead := t.stream(protocol.DeadStream, "Daybook: parked dispatches, and advisories about messages given up", t.Dead)
	dead.Subjects = []string{
		protocol.DeadSubjects,
		"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + protocol.DispatchStream + ".>",
		"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED." + protocol.DispatchStream + ".>",
	}
	return []jetstream.StreamConfig{dispatch, events, dead}
}

func (t Topology) stream(name, description string, l StreamLimits) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              name,
		Description:       description,
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardOld,
		Replicas:          t.Replicas,
		MaxConsumers:      -1,
		MaxMsgs:           l.MaxMsgs,
		MaxBytes:          l.MaxBytes,
		MaxMsgSize:        l.MaxMsgSize,
		MaxMsgsPerSubject: -1,
		MaxAge:            l.MaxAge,
		Duplicates:        l.Duplicates,
		AllowDirect:       true,
	}
}

// consumer is the complete configuration of a lane's consumer.
func (t Topology) consumer(lane protocol.Lane, incarnation time.Time) jetstream.ConsumerConfig {
	name := protocol.ConsumerName(lane.Queue, lane.Kind, incarnation)
	return jetstream.ConsumerConfig{
		Name:          name,
		Durable:       name,
		FilterSubject: protocol.DispatchSubject(lane.Queue, lane.Kind),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		AckWait:       t.Lease.AckWait,
		MaxDeliver:    t.Lease.MaxDeliver, // and no BackOff: it replaces the ack wait and stretches the delay of a NAK
		MaxAckPending: t.MaxAckPending,
		MaxWaiting:    t.MaxWaiting,
		Replicas:      t.Replicas,
	}
}
