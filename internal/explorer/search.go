package explorer

import "strings"

// found is a violation and a shortest way to it.
type found struct {
	what  string
	trace []string
}

// search goes through all states breadth first.
type search struct {
	mover
	want   string // stop at the first violation whose name begins so; empty: at any
	limit  int    // of states
	states []state
	prev   []uint32
	next   [][]uint32 // moves of each state: target<<2 | kind
	seen   map[uint64]uint32
	found  []found
}

// explore returns the violations that can be reached, in the order in which they
// are found, up to the first that is wanted; and how many states it looked at.
func explore(c config, want string, limit int) ([]found, int) {
	s := &search{mover: mover{config: &c}, want: want, limit: limit, seen: map[uint64]uint32{}}
	var first state
	s.add(first, c.canon(&first), 0)
	for h := uint32(0); int(h) < len(s.states); h++ {
		if what := s.broken(&s.states[h]); what != "" {
			s.next = append(s.next, nil)
			if s.report(h, what) {
				return s.found, len(s.states)
			}
			continue // what follows from a broken state is of no interest
		}
		if len(s.states) > limit {
			s.report(h, "TOO LARGE: the bound on states was reached")
			return s.found, len(s.states)
		}
		s.expand(h)
	}
	if len(s.found) == 0 {
		s.liveness()
	}
	return s.found, len(s.states)
}

func (s *search) add(st state, key uint64, from uint32) uint32 {
	h := uint32(len(s.states))
	if st.bad == "" {
		s.seen[key] = h
	}
	s.states, s.prev = append(s.states, st), append(s.prev, from)
	return h
}

func (s *search) expand(h uint32) {
	moves := s.from(s.states[h])
	targets := make([]uint32, len(moves))
	for i := range moves {
		mv := &moves[i]
		key := s.canon(&mv.to)
		to, known := s.seen[key]
		if !known || mv.to.bad != "" {
			to = s.add(mv.to, key, h)
		}
		targets[i] = to<<2 | uint32(mv.kind)
	}
	s.next = append(s.next, targets)
}

// report notes the first way to each violation, and tells whether to stop.
func (s *search) report(h uint32, what string) (stop bool) {
	stop = strings.HasPrefix(what, s.want)
	for _, f := range s.found {
		if f.what == what {
			return stop
		}
	}
	s.found = append(s.found, found{what, s.trace(h)})
	return stop
}

// trace walks back to the beginning. Each step is found again among the moves of
// the state before it.
func (s *search) trace(h uint32) []string {
	var steps []string
	again := mover{config: s.config, labels: true}
	for ; h != 0; h = s.prev[h] {
		to := s.states[h]
		key := s.canon(&to)
		for _, mv := range again.from(s.states[s.prev[h]]) {
			if mv.to.bad == to.bad && s.canon(&mv.to) == key {
				steps = append([]string{mv.label}, steps...)
				break
			}
		}
	}
	return steps
}
