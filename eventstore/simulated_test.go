package eventstore

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// fakeClock gives the engine's role a clock of its own: its now() and
// clock_timestamp() are found before PostgreSQL's and add an offset to them.
// Everything else is the real thing.
const fakeClock = `
CREATE SCHEMA fake;
CREATE TABLE fake.clock (ahead interval NOT NULL);
INSERT INTO fake.clock VALUES ('0');
CREATE FUNCTION fake.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pg_catalog.now() + (SELECT ahead FROM fake.clock)';
CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM fake.clock)';
GRANT USAGE ON SCHEMA fake TO PUBLIC;
GRANT SELECT ON fake.clock TO PUBLIC`

const day = 24 * time.Hour

type simulation struct {
	*world
}

func newSimulation(t *testing.T, at time.Time) *simulation {
	t.Helper()
	db := pgtest.New(t)
	admin := db.Pool(t, "")
	own := fmt.Sprintf("ALTER ROLE daybook_engine IN DATABASE %q SET search_path = fake, public, pg_catalog", admin.Config().ConnConfig.Database)
	for _, sql := range []string{fakeClock, own} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s := &simulation{&world{log: &bytes.Buffer{}, dsn: db.DSNFor("daybook_engine"), admin: admin}}
	s.set(t, at)
	return s
}

// set moves the database's clock, to the microsecond it takes to do so.
func (s *simulation) set(t *testing.T, at time.Time) {
	t.Helper()
	s.exec(t, "UPDATE fake.clock SET ahead = $1 - pg_catalog.clock_timestamp()", at)
}

// engine is what one process does in its short life: it starts, decides what is
// due, and is gone.
func (s *simulation) engine(t *testing.T) {
	t.Helper()
	st, err := Open(t.Context(), Config{DSN: s.dsn, OpsConns: 1, LoopConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.KeepPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := st.Materialize(t.Context(), 100, LongestDueFirst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !m.Full {
			return
		}
	}
}

// oracle lists the instants of a daily or weekly wall time by looking at the
// clock on the wall every minute. It shares nothing with the product's code: a
// civil time that the clock skips is the minute it would have been before the
// clocks jumped, one that it shows twice counts the first time.
func oracle(t *testing.T, zone string, hour, minute int, weekday time.Weekday, daily bool, from, to time.Time) map[time.Time]bool {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	out := map[time.Time]bool{}
	seen := map[string]bool{}
	from = from.Truncate(time.Minute)
	previous := from.In(loc)
	for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		local := at.In(loc)
		day := local.Format(time.DateOnly)
		wanted := daily || local.Weekday() == weekday
		if wanted && local.Hour() == hour && local.Minute() == minute && !seen[day] {
			seen[day] = true
			out[at.UTC()] = true
		}
		_, before := previous.Zone()
		_, after := local.Zone()
		if gap := time.Duration(after-before) * time.Second; gap > 0 && wanted && !seen[day] {
			// The wall clock went from just before the gap to just after it.
			skipped := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
			shown := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute
			if skipped < shown && skipped >= shown-gap {
				seen[day] = true
				out[at.Add(skipped-(shown-gap)).UTC()] = true
			}
		}
		previous = local
	}
	return out
}

// A month goes by, and everything is restarted all the time: every ten seconds
// around whatever comes due, and every six hours in between. The clock of
// the database is moved forward and back on the way. Each instant that the wall
// clocks showed has its one run.
//
// A restart between two instants finds nothing to do, as its neighbours ten
// seconds before and after it do, so those are left out that have the same
// watermark, next fire and zone rules as these.
func TestMonthOfRestartsAndMovedClocks(t *testing.T) {
	start := time.Date(2027, 3, 5, 0, 0, 30, 0, time.UTC) // New York and Berlin both change their clocks within it
	end := start.AddDate(0, 1, 0)
	s := newSimulation(t, start)
	type job struct {
		name, expr, zone string
		hour, minute     int
		weekday          time.Weekday
		daily            bool
	}
	jobs := []job{
		{"weekly-new-york", "30 2 * * 0", "America/New_York", 2, 30, time.Sunday, false}, // in the gap of 14 March
		{"daily-berlin", "15 2 * * *", "Europe/Berlin", 2, 15, 0, true},                  // in the gap of 28 March
		{"daily-utc", "0 12 * * *", "UTC", 12, 0, 0, true},
		{"weekly-tokyo", "45 23 * * 5", "Asia/Tokyo", 23, 45, time.Friday, false},
	}
	s.Store = s.open(t, "setup")
	if _, err := s.KeepPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	var restarts []time.Time
	for at := start; at.Before(end); at = at.Add(6 * time.Hour) {
		restarts = append(restarts, at)
	}
	wanted := map[string]map[time.Time]bool{}
	for _, j := range jobs {
		sp := spec(j.name)
		sp.Schedules, sp.TimeZone, sp.Misfire, sp.CatchupWindow = []string{j.expr}, j.zone, domain.MisfireAll, 0
		s.apply(t, sp)
		wanted[j.name] = oracle(t, j.zone, j.hour, j.minute, j.weekday, j.daily, start, end)
		for at := range wanted[j.name] {
			for _, d := range []time.Duration{-15, -5, 5, 15} { // whole seconds, which the instant is not among
				restarts = append(restarts, at.Add(d*time.Second))
			}
		}
	}
	slices.SortFunc(restarts, time.Time.Compare)
	jumps := []struct{ at, to time.Duration }{ // from the start
		{8*day + time.Hour, 9*day + 7*time.Hour}, // over the New York change, and back with the next restart
		{20 * day, 19*day - 2*time.Hour},
		{23 * day, 24*day + 30*time.Minute}, // over the change in Berlin
		{27 * day, 20 * day},
	}
	for _, now := range restarts {
		if len(jumps) > 0 && now.After(start.Add(jumps[0].at)) {
			s.set(t, start.Add(jumps[0].to))
			jumps = jumps[1:]
			s.engine(t)
		}
		s.set(t, now)
		s.engine(t)
	}
	s.set(t, end)
	s.engine(t)
	for _, j := range jobs {
		want := wanted[j.name]
		rows, err := s.admin.Query(t.Context(), `SELECT (data->>'scheduled_at')::timestamptz FROM events WHERE type = 'RunScheduled' AND data->>'job' = $1`, j.name)
		if err != nil {
			t.Fatal(err)
		}
		got := map[time.Time]int{}
		for rows.Next() {
			var at time.Time
			if err := rows.Scan(&at); err != nil {
				t.Fatal(err)
			}
			got[at.UTC()]++
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		for at := range want {
			if got[at] == 0 {
				t.Errorf("%s: the wall clock showed %s and nothing ran", j.name, at)
			}
		}
		for at, n := range got {
			if n > 1 || !want[at] && !at.After(end) {
				t.Errorf("%s: %d runs at %s, wanted %v", j.name, n, at, want[at])
			}
		}
		if len(want) < 4 {
			t.Errorf("%s: the oracle names %d instants of a month", j.name, len(want))
		}
	}
}

// Clocks of the replicas' machines decide nothing: only the database's does.
func TestSimulatedLeaseEndsByTheDatabasesClock(t *testing.T) {
	noon := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	s := newSimulation(t, noon)
	s.Store = s.open(t, "engine-1")
	if _, err := s.KeepPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.apply(t, spec("report"))
	s.request(t, "report", 1)
	run := s.claim(t, 1)[0]
	s.execute(t, start(run))
	s.set(t, noon.Add(-time.Hour)) // back: nothing lapses
	if got, err := s.ExpireClaims(t.Context(), 10); err != nil || len(got) != 0 {
		t.Errorf("reaped %d claims although the clock went back, %v", len(got), err)
	}
	s.set(t, noon.Add(time.Hour)) // forward: the lease is over early, and the fence holds
	if got, err := s.ExpireClaims(t.Context(), 10); err != nil || len(got) != 1 {
		t.Errorf("reaped %d claims, %v", len(got), err)
	}
	if a := s.execute(t, succeed(run))[0]; code(a.Err) != domain.CodeStaleClaim {
		t.Errorf("success of a claim that the clock ended: %v", a.Err)
	}
}
