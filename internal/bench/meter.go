package bench

import (
	"context"
	"time"
)

// reading is what the counters said at one moment.
type reading struct {
	at                               time.Time
	database, engine, broker, worker time.Duration
	busy, stolen                     time.Duration
	wal                              int64
}

func (r *rig) read(ctx context.Context) (m reading, err error) {
	if err := r.watch.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&m.wal); err != nil {
		return m, err
	}
	m.at = time.Now()
	m.busy, m.stolen = busy()
	m.database = ServerTime(r.postmaster)
	m.engine, m.broker = processor(r.engine.pid()), processor(r.broker.pid())
	if r.worker != nil {
		m.worker = processor(r.worker.pid())
	}
	return m, nil
}

// fill adds to a result what was used between two readings.
func (r *rig) fill(res *Result, from, to reading, runs int) {
	if runs == 0 {
		return
	}
	per := func(d time.Duration) float64 { return round(float64(d.Nanoseconds())/1000/float64(runs), 1) }
	if to.busy > 0 {
		c := &CPU{Database: per(to.database - from.database), Engine: per(to.engine - from.engine),
			Broker: per(to.broker - from.broker), Worker: per(to.worker - from.worker)}
		c.Total = round(c.Database+c.Engine+c.Broker+c.Worker, 1)
		c.Other = max(0, round(per(to.busy-from.busy)-c.Total, 1))
		c.Stolen = per(to.stolen - from.stolen)
		res.CPU = c
		res.PeakRSS = map[string]int64{"engine": peakRSS(r.engine.pid()), "broker": peakRSS(r.broker.pid())}
		if r.worker != nil {
			res.PeakRSS["worker"] = peakRSS(r.worker.pid())
		}
	}
	res.WAL = (to.wal - from.wal) / int64(runs)
}

func round(v float64, digits int) float64 {
	f := 1.0
	for range digits {
		f *= 10
	}
	return float64(int64(v*f+0.5)) / f
}
