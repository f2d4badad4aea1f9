// Package domain decides. It holds the commands, events and states of jobs and
// runs, and the policies between them: what a claim, a start, a failure or a
// lapsed lease means, when a failed run is tried again, which of the instants a
// schedule named still deserve a run.
//
// Every decision has the same shape:
//
//	Decide(state, command, now) → events        refusals are errors of type *Refusal
//	Evolve(state, event, at)    → state
//
// The package is pure. It has no clock, no entropy and no I/O: the time and
// every random id are arguments, so that a decision made twice from the same
// history is the same decision. The caller holds the rows of the run or job
// locked while it decides and stores the events in the same transaction.
//
// A run is one due instant of one job, or one request:
//
//	               RunScheduled
//	                    │
//	                 pending ◄──────────── RunReleased (never started) · RunRetryScheduled
//	                    │ RunClaimed       RunSnoozed · RunInterrupted (drained)
//	                    ▼                                ▲
//	                 claimed ────────────────────────────┤
//	                    │ RunStarted                     │
//	                    ▼                                │
//	                 running ────────────────────────────┘
//	                    │   (RunCancelRequested sets a flag on the claim)
//	RunSucceeded · RunFailed · RunCancelled · RunSkipped    final
package domain
