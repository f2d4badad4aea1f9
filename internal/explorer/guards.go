package explorer

// guard is a rule of the protocol that a configuration can do without.
type guard uint64

const (
	outcomeFence guard = 1 << iota
	startOnce
	startToken
	startClaim
	reapCheck
	reaper
	chargeAtStart
	chargeCrash
	attemptLimit
	refund
	recorded
	ackLast
	idPerClaim
	outboxRow
	relayPoll
	rearm
	rearmDurable
	consumerPerStream
	timeToLive
	cancelWaits
	cancelFlag
	atomicMove
	ownDeadline
	bothTransports
	nakUnsent
	releaseToken
	releaseUnstarted
	parkUnstarted
)

// guards says what each guard is.
var guards = map[guard]string{
	outcomeFence:      "an outcome needs the open claim",
	startOnce:         "a claim is started by one delivery",
	startToken:        "a start repeated with its token gets the same answer",
	startClaim:        "a start needs the open claim",
	reapCheck:         "the reaper looks at the lease again under the row's lock",
	reaper:            "there is a reaper",
	chargeAtStart:     "an attempt is charged when it starts, not when it is claimed",
	chargeCrash:       "an attempt whose lease ended stays charged",
	attemptLimit:      "a run fails after its last attempt",
	refund:            "a drained attempt is given back",
	recorded:          "a repeated outcome is answered from the stream",
	ackLast:           "a message is acknowledged last",
	idPerClaim:        "the message id is the claim's, not the run's",
	outboxRow:         "the claim's transaction writes the outbox",
	relayPoll:         "the relay looks into the table",
	rearm:             "a new stream gets the unstarted claims again",
	rearmDurable:      "what is re-armed goes through the outbox",
	consumerPerStream: "a consumer is named after its stream's creation",
	timeToLive:        "a message lives no longer than its dispatch lease",
	cancelWaits:       "the cancel of a running run waits for its worker",
	cancelFlag:        "a flagged claim ends as cancelled",
	atomicMove:        "a row moves in one transaction",
	ownDeadline:       "a worker that cannot renew stops by its own clock",
	bothTransports:    "a worker that cannot reach NATS uses HTTP",
	nakUnsent:         "a message is given back only if no start was sent",
	releaseToken:      "a release does not end the attempt of another delivery",
	releaseUnstarted:  "a release closes a claim that nobody started",
	parkUnstarted:     "a dispatch refused for good does not end an attempt that started",
}

// config is a protocol and the world around it.
type config struct {
	without guard

	timed    bool // the leases dominate: see package documentation
	calm     bool // no faults
	crashing bool // every execution kills its worker
	idle     bool // no worker ever starts anything
	cancels  bool // a user may cancel
	slots    int  // of workers
	attempts uint8
}

func (c *config) has(g guard) bool { return c.without&g == 0 }
