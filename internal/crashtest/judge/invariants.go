package judge

import (
	"fmt"
	"slices"
)

// Invariant is something that must hold of every history, and the violations by
// which the judge says that it does not.
type Invariant struct {
	ID, What string
	Kinds    []string
}

// Invariants is all that the judge looks for. A kind of violation that is not
// here cannot be reported, and the tests break a good history for each.
var Invariants = []Invariant{
	{"I1", "every stream is a legal path of the lifecycle", []string{"illegal path", "undecodable"}},
	{"I2", "versions count from 1 without a gap", []string{"version gap"}},
	{"I3", "a run has at most one final event, and it is the last", []string{"second end"}},
	{"I4", "no run is left unfinished", []string{"stuck"}},
	{"I5", "every owed instant and every answered request has one run, and there are no other runs",
		[]string{"lost instant", "instant twice", "invented instant", "foreign run", "lost job", "invented job", "skipped instants", "slot without run", "run without slot",
			"lost request", "invented request", "key twice"}},
	{"I6", "nothing is claimed before it is ready", []string{"early claim"}},
	{"I7", "no lease is closed by the reaper before it is over", []string{"early expiry", "late start"}},
	{"I8", "a run's claims do not overlap in time", []string{"claims overlap"}},
	{"I9", "a claim and its dispatch are of one transaction, and neither is without the other", []string{"claim without dispatch", "dispatch without claim"}},
	{"I10", "a message's id is of its claim, never of the run", []string{"message id", "claim id twice"}},
	{"I11", "starts and ends carry the id of the open claim", []string{"fence"}},
	{"I12", "what a worker was told is recorded is in the log; what succeeded was executed to its end",
		[]string{"recorded without event", "success without execution", "success without effect"}},
	{"I13", "nothing is executed without a claim that was started", []string{"execution without start", "execution without claim", "journal"}},
	{"I14", "no execution begins after its claim was closed, but for a worker that was frozen", []string{"zombie"}},
	{"I15", "when all is over nothing is left in queues, outbox and stream", []string{"left"}},
	{"I16", "a message is delivered no more often than the consumer allows", []string{"deliveries"}},
	{"I17", "the effect of a run that succeeded is there, one time", []string{"effect lost", "effect twice", "effect of nothing"}},
	{"I18", "a claim is executed by one worker at a time, and so is a run, but for a worker that was frozen", []string{"claim executed twice", "executions overlap"}},
	{"I19", "a run has the attempts of its job: no more, and no fewer before it fails", []string{"gave up early", "too many attempts"}},
	{"I20", "a run that was never started does not fail", []string{"starved"}},
	{"I21", "the read model is the fold of the log", []string{"read model"}},
	{"I22", "no more runs have a place at once than there are places", []string{"overlap", "limit", "skipped"}},
	{"I23", "positions grow with versions", []string{"order", "position twice"}},
	{"I24", "time does not go back within a stream", []string{"time back"}},
	{"I25", "job, queue and kind are the same in the definition, the run and the message", []string{"wrong lane"}},
	{"I26", "a lease is as long as the budget in force says", []string{"short lease"}},
	{"I27", "runs start on time while nothing is wrong, and end in time once everything works again", []string{"late", "slow recovery"}},
	{"I28", "what a run lost, and each execution beyond its first, has a fault that explains it",
		[]string{"attempt lost without a fault", "released without a fault", "interrupted without a fault", "unexplained execution"}},
	{"I29", "a reader of the log and a subscriber get every event, each stream's in order",
		[]string{"unpublished event", "feed order", "invented event", "tail"}},
	{"I30", "nothing is cancelled that nobody asked for, and a cancel that was answered is in the log", []string{"cancelled", "lost cancel"}},
	{"I31", "the claim is a linearizable register: what was answered before something was asked comes before it in the log", []string{"not linearizable"}},
	{"I32", "no transaction is left open", []string{"open transaction"}},
}

// invariantOf names the invariant that the kind of violation belongs to.
func invariantOf(kind string) string {
	for _, i := range Invariants {
		if slices.Contains(i.Kinds, kind) {
			return i.ID
		}
	}
	panic(fmt.Sprintf("judge: violation %q belongs to no invariant", kind))
}
