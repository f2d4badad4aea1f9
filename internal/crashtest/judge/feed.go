package judge

import "github.com/google/uuid"

// feed checks that subscribers got every event of the log at least one time, and
// those of a stream at first in their order. It returns how many were repeats.
func (h History) feed(v *Violations) (repeats int) {
	if h.Feed == nil {
		return 0
	}
	type event struct {
		stream  uuid.UUID
		version int
	}
	log := make(map[event]string, len(h.Events))
	for _, e := range h.Events {
		log[event{e.StreamID, e.Version}] = e.Type
	}
	seen := make(map[event]bool, len(log))
	last := map[uuid.UUID]int{}
	for _, p := range h.Feed {
		e := event{p.Stream, p.Version}
		switch typ, ok := log[e]; {
		case !ok:
			v.add("invented event", "stream %s version %d, a %s, was published and is not in the log", p.Stream, p.Version, p.Type)
		case typ != p.Type:
			v.add("invented event", "stream %s version %d was published as a %s and is a %s", p.Stream, p.Version, p.Type, typ)
		case seen[e]:
			repeats++
		case p.Version != last[p.Stream]+1:
			v.add("feed order", "stream %s: version %d was published after version %d", p.Stream, p.Version, last[p.Stream])
		}
		seen[e], last[p.Stream] = true, max(last[p.Stream], p.Version)
	}
	for e, typ := range log {
		if !seen[e] {
			v.add("unpublished event", "stream %s version %d, a %s", e.stream, e.version, typ)
		}
	}
	return repeats
}
