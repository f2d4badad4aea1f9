package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/domain"
)

// leaseFlag is --lease: changes to the built-in lease budget, term by term. What
// the terms have to keep is checked where they are put to use, so that a budget
// given in several flags is judged as a whole.
type leaseFlag struct{ budget *domain.LeaseBudget }

// addLease defines the flag. Every engine of an installation must have the same.
func addLease(f *pflag.FlagSet, b *domain.LeaseBudget) {
	*b = domain.DefaultLeaseBudget()
	f.Var(leaseFlag{b}, "lease", `terms of the lease budget that differ from the built-in ones, for example
dispatch_lease=90s,queue_wait=40s. The terms are publish, queue_wait, ack_wait,
max_deliver, execution, complete, dispatch_lease and execution_lease. A lease
must outlive what may still happen under it: dispatch_lease > publish +
queue_wait + ack_wait × (max_deliver − 1), execution_lease > execution + complete`)
}

var leaseTerms = []string{"publish", "queue_wait", "ack_wait", "max_deliver", "execution", "complete", "dispatch_lease", "execution_lease"}

func (l leaseFlag) duration(term string) *time.Duration {
	switch term {
	case "publish":
		return &l.budget.Publish
	case "queue_wait":
		return &l.budget.QueueWait
	case "ack_wait":
		return &l.budget.AckWait
	case "execution":
		return &l.budget.Execution
	case "complete":
		return &l.budget.Complete
	case "dispatch_lease":
		return &l.budget.DispatchLease
	case "execution_lease":
		return &l.budget.ExecutionLease
	}
	return nil
}

// Set reads TERM=VALUE, several separated by commas.
func (l leaseFlag) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.ReplaceAll(strings.TrimSpace(name), "-", "_"), strings.TrimSpace(value)
		switch d := l.duration(name); {
		case !ok:
			return fmt.Errorf("%q: want TERM=VALUE, for example dispatch_lease=90s", part)
		case d != nil:
			v, err := time.ParseDuration(value)
			if err != nil {
				return fmt.Errorf("%s: %q is not a duration: want for example 90s", name, value)
			}
			*d = v
		case name == "max_deliver":
			n, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("%s: %q is not a whole number", name, value)
			}
			l.budget.MaxDeliver = n
		default:
			return fmt.Errorf("%q is none of the terms %s", name, strings.Join(leaseTerms, ", "))
		}
	}
	return nil
}

// String gives the terms that differ from the built-in ones.
func (l leaseFlag) String() string {
	if l.budget == nil {
		return ""
	}
	standard := domain.DefaultLeaseBudget()
	var parts []string
	for _, term := range leaseTerms {
		if term == "max_deliver" {
			if n := l.budget.MaxDeliver; n != standard.MaxDeliver {
				parts = append(parts, fmt.Sprintf("%s=%d", term, n))
			}
		} else if d := *l.duration(term); d != *(leaseFlag{&standard}).duration(term) {
			parts = append(parts, fmt.Sprintf("%s=%s", term, d))
		}
	}
	return strings.Join(parts, ",")
}

// Type is what the help shows for the value.
func (leaseFlag) Type() string { return "TERMS" }
