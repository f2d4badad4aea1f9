package explorer

// phase is where the run is. Limbo exists only without atomic moves: its claim
// is deleted, and a live engine owes the pending row; orphaned: a dead one does.
type phase uint8

const (
	pending phase = iota
	claimed       // under the dispatch lease
	running       // under the execution lease
	limbo
	orphaned
	succeeded // final from here on
	failed
	cancelled
)

// slotPhase is what a worker's slot does with its delivery.
type slotPhase uint8

const (
	free      slotPhase = iota
	got                 // no start sent
	asked               // a start was sent, and its answer or itself is lost so far
	releasing           // drained while asked: gives the run back until answered
	executing
	hasSucceeded // from here on it repeats its report until answered
	hasFailed
	drained
	stopped // was told to cancel
	settled // the acknowledgement is all that is left
)

const (
	ids        = 2 // claim ids alive at once: the open one, and one that something stale still names
	deliveries = 2 // of one message
)

// copies is what names a claim id outside of the claims row. A copy waits in the
// broker or is in flight, never both: another copy of the same message is one
// delivered afresh.
type copies struct {
	row, mem        bool // the pack in the table, in a relay's memory
	known           bool // the broker remembers the message id
	waiting, flying bool
	left            uint8 // deliveries
}

type slot struct {
	phase slotPhase
	claim uint8
	mine  bool // the token that start recorded is this delivery's
	done  bool // its outcome is recorded
	late  bool // a start of its may still arrive

	lost bool // ghost: a lease ended under this live worker
	old  bool // ghost: it was delivered by a stream that is gone
}

type state struct {
	run     phase
	claim   uint8 // open; 0 is none
	attempt uint8
	lapsed  bool // the open claim's lease is over
	cancel  bool // asked for
	wiped   bool // the stream was lost and nobody has noticed
	seen    uint8

	// Ghosts, which no rule of the protocol looks at.
	real uint8  // attempts that executed and failed, crashed or lost their lease
	just bool   // the open claim was executed, or its worker died holding it
	ends uint8  // terminal events
	bad  string // what went wrong in the step that led here

	of [ids + 1]copies
	w  [2]slot
}

func (s *state) open() bool     { return s.run == claimed || s.run == running }
func (s *state) terminal() bool { return s.run >= succeeded }

// held reports whether a live worker has something to say about the claim.
func (s *state) held(claim uint8, mine bool) bool {
	for _, w := range s.w {
		if w.phase != free && w.phase != settled && w.claim == claim && (w.mine || !mine) {
			return true
		}
	}
	return false
}

// drop removes a message. Acknowledgements are not fenced: a late one removes
// the copy that was delivered again.
func (s *state) drop(id uint8) { s.of[id].waiting, s.of[id].flying = false, false }

func (s *state) requeue(id uint8) {
	s.of[id].waiting, s.of[id].flying = s.of[id].waiting || s.of[id].flying, false
}

func (s *state) wrong(is bool, what string) {
	if is && s.bad == "" {
		s.bad = what
	}
}
