package domain

import (
	"errors"
	"fmt"
	"time"
)

// Terms of the lease budget, as built in. A claim is held by two leases after
// one another: the dispatch lease from claim to start, the execution lease from
// start to the outcome, renewed by heartbeats.
const (
	DefaultPublish        = 5 * time.Second  // outbox to broker
	DefaultQueueWait      = 20 * time.Second // in the broker, before the first delivery
	DefaultAckWait        = 5 * time.Second  // until an unacknowledged message is delivered again
	DefaultMaxDeliver     = 5                // deliveries of one message
	DefaultExecution      = 30 * time.Second // longest a live worker goes without renewing
	DefaultComplete       = 10 * time.Second // from the handler's return to the recorded outcome
	DefaultDispatchLease  = 60 * time.Second
	DefaultExecutionLease = 60 * time.Second
)

// A broken relation between the defaults does not compile: the constant is
// negative and overflows uint64.
const (
	_ = uint64(DefaultDispatchLease - (DefaultPublish + DefaultQueueWait + DefaultAckWait*(DefaultMaxDeliver-1)) - 1)
	_ = uint64(DefaultExecutionLease - (DefaultExecution + DefaultComplete) - 1)
	_ = uint64(DefaultDispatchLease + DefaultExecutionLease -
		(DefaultPublish + DefaultQueueWait + DefaultAckWait*(DefaultMaxDeliver-1) + DefaultExecution + DefaultComplete) - 1)
	_ = uint64(DefaultDispatchLease + DefaultExecutionLease - DefaultAckWait*(DefaultMaxDeliver-1)*3 - 1)
)

// LeaseBudget names the terms of the relation that every configuration must
// keep: a lease outlives everything that can still happen in good order while
// it holds.
type LeaseBudget struct {
	Publish        time.Duration
	QueueWait      time.Duration
	AckWait        time.Duration
	MaxDeliver     int
	Execution      time.Duration
	Complete       time.Duration
	DispatchLease  time.Duration
	ExecutionLease time.Duration
}

// Bounds of the terms, within which no sum or product of them overflows.
const (
	maxLeaseTerm    = 24 * time.Hour
	maxDeliverLimit = 1000
)

// DefaultLeaseBudget is the built-in budget: 85 s of terms under 120 s of lease.
func DefaultLeaseBudget() LeaseBudget {
	return LeaseBudget{
		Publish: DefaultPublish, QueueWait: DefaultQueueWait, AckWait: DefaultAckWait, MaxDeliver: DefaultMaxDeliver,
		Execution: DefaultExecution, Complete: DefaultComplete,
		DispatchLease: DefaultDispatchLease, ExecutionLease: DefaultExecutionLease,
	}
}

// Redelivery is the time in which the broker may hand a message out again.
func (b LeaseBudget) Redelivery() time.Duration {
	return b.AckWait * time.Duration(b.MaxDeliver-1)
}

// Validate returns an error that names every broken relation with its terms.
func (b LeaseBudget) Validate() error {
	var errs []error
	for _, t := range []struct {
		name  string
		value time.Duration
	}{
		{"publish", b.Publish}, {"queue_wait", b.QueueWait}, {"ack_wait", b.AckWait}, {"execution", b.Execution},
		{"complete", b.Complete}, {"dispatch_lease", b.DispatchLease}, {"execution_lease", b.ExecutionLease},
	} {
		switch {
		case t.value <= 0:
			errs = append(errs, fmt.Errorf("lease budget: %s is %s, must be positive", t.name, t.value))
		case t.value > maxLeaseTerm:
			errs = append(errs, fmt.Errorf("lease budget: %s is %s, must be at most %s", t.name, t.value, maxLeaseTerm))
		}
	}
	if b.MaxDeliver < 1 || b.MaxDeliver > maxDeliverLimit {
		errs = append(errs, fmt.Errorf("lease budget: max_deliver is %d, must be from 1 to %d", b.MaxDeliver, maxDeliverLimit))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	redelivery := b.Redelivery()
	if sum := b.Publish + b.QueueWait + redelivery; b.DispatchLease <= sum {
		errs = append(errs, fmt.Errorf("lease budget: dispatch_lease %s must exceed publish %s + queue_wait %s + ack_wait %s × (max_deliver %d − 1) = %s",
			b.DispatchLease, b.Publish, b.QueueWait, b.AckWait, b.MaxDeliver, sum))
	}
	if sum := b.Execution + b.Complete; b.ExecutionLease <= sum {
		errs = append(errs, fmt.Errorf("lease budget: execution_lease %s must exceed execution %s + complete %s = %s",
			b.ExecutionLease, b.Execution, b.Complete, sum))
	}
	if lease := b.DispatchLease + b.ExecutionLease; lease <= redelivery*3 {
		errs = append(errs, fmt.Errorf("lease budget: dispatch_lease + execution_lease = %s must exceed ack_wait %s × (max_deliver %d − 1) × 3 = %s",
			lease, b.AckWait, b.MaxDeliver, redelivery*3))
	}
	return errors.Join(errs...)
}

// ExecutionTerms are the terms of the lease budget that an execution lease is
// granted by.
type ExecutionTerms struct {
	Lease    time.Duration // execution lease
	Complete time.Duration // how long after an attempt's deadline its outcome is still awaited
}

// ExecutionTerms are the budget's terms for execution leases.
func (b LeaseBudget) ExecutionTerms() ExecutionTerms {
	return ExecutionTerms{Lease: b.ExecutionLease, Complete: b.Complete}
}

// End is where an execution lease granted now ends: a full lease away, but no
// later than the outcome is awaited after the attempt's deadline.
func (t ExecutionTerms) End(now time.Time, deadline *time.Time) time.Time {
	end := now.Add(t.Lease)
	if deadline != nil {
		if last := deadline.Add(t.Complete); last.Before(end) {
			return last
		}
	}
	return end
}
