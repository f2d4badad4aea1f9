package explorer

// What must not be. The names are what tests ask for.
const (
	twoEnds     = "TWO ENDS: a second terminal event"
	burnt       = "BURNT: an attempt is charged that never executed"
	failedEarly = "BURNT: failed before its last attempt"
	undercharge = "UNDERCHARGED: an attempt that executed is not charged"
	tooMany     = "TOO MANY: another attempt after the last"
	regress     = "REGRESS: left a terminal state"
	stale       = "STALE: the write of a claim that is closed was accepted"
	untruth     = "UNTRUTH: a recorded outcome is answered by a refusal"
	uncancelled = "UNCANCELLED: started again after a cancel was accepted"
	idleRelease = "IDLE RELEASE: nobody started a run, and nothing was at fault"
	sameClaim   = "OVERLAP: one claim is executed twice at a time"
	overlap     = "OVERLAP: two executions although no lease ended under a live worker"
	endedUnder  = "ENDED UNDER IT: final while its worker executes under a live lease"
	stuckClaim  = "STUCK: an unstarted claim that only the end of its lease can help"
	leak        = "LEAK: a message or pack that nothing removes"
	lostRun     = "LOST: no final state can be reached without another fault"
	crashLoop   = "CRASH LOOP: a run that kills its workers never fails"
)

// end records a terminal event.
func (s *state) end(c *config, as phase) {
	s.ends++
	s.run, s.claim, s.lapsed, s.just = as, 0, false, false
	s.wrong(s.ends > 1, twoEnds)
	s.wrong(as == failed && s.real < c.attempts, failedEarly)
}

// back ends a claim without success.
func (s *state) back(c *config, charged bool) {
	switch {
	case s.cancel && c.has(cancelFlag):
		s.end(c, cancelled)
	case charged && s.attempt >= c.attempts && c.has(attemptLimit):
		s.end(c, failed)
	default:
		s.wrong(s.ends > 0, regress)
		s.run, s.claim, s.lapsed, s.just = pending, 0, false, false
		if !c.has(atomicMove) {
			s.run = limbo
		}
	}
	s.wrong(s.attempt > s.real, burnt)
	s.wrong(s.attempt < s.real, undercharge)
}

// broken names what is wrong with a state, if anything is.
func (c *config) broken(s *state) string {
	x, y := s.w[0], s.w[1]
	both := x.phase == executing && y.phase == executing
	switch {
	case s.bad != "":
		return s.bad
	case both && x.claim == y.claim:
		return sameClaim
	case both && (c.timed || !x.lost && !y.lost):
		return overlap
	case s.terminal() && (x.phase == executing && !x.lost || y.phase == executing && !y.lost):
		return endedUnder
	}
	return ""
}
