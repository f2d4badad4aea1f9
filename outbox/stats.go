package outbox

import "sync/atomic"

// Stats counts since the relay was made.
type Stats struct {
	Published uint64 // messages the broker took
	Failed    uint64 // messages it did not take, each try counted; they are tried again
	Dropped   uint64 // messages not published because their lease was over
	Parked    uint64 // messages that can never be published
	Recovered uint64 // packs taken from the table instead of from memory
	Overflow  uint64 // packs that memory had no room for and that were left to the table
	Held      int    // packs in memory, waiting or in flight
	Holding   bool   // the broker takes nothing, and the relay holds back
}

type counters struct {
	published, failed, dropped, parked, recovered atomic.Uint64
}

// Stats tells what the relay has done. It is safe for concurrent use and cheap.
func (r *Relay) Stats() Stats {
	s := Stats{
		Published: r.count.published.Load(),
		Failed:    r.count.failed.Load(),
		Dropped:   r.count.dropped.Load(),
		Parked:    r.count.parked.Load(),
		Recovered: r.count.recovered.Load(),
		Holding:   r.gate.shut(),
	}
	s.Held, s.Overflow = r.desk.counts()
	return s
}
