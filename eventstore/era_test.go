package eventstore

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
)

// A connection that was made before the server's history changed, as one through
// a pooler can be, appends nothing after it.
func TestOpenConnectionsDoNotOutliveTheHistory(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 2)
	run := w.claim(t, 1)[0]
	w.execute(t, start(run))
	before := w.count(t, "SELECT count(*) FROM events")

	for column, other := range map[string]string{"system_identifier": "'1'", "timeline": "timeline + 1", "log": "(log::bigint + 1)::oid"} {
		var kept any
		if err := w.admin.QueryRow(t.Context(), "SELECT "+column+" FROM eras").Scan(&kept); err != nil {
			t.Fatal(err)
		}
		w.exec(t, "UPDATE eras SET "+column+" = "+other)
		_, claimErr := w.Claim(t.Context(), ClaimRequest{Lane: NewLane("default", "noop"), Limit: 1, Lease: time.Minute}, &memoryOutbox{})
		_, endErr := w.Execute(t.Context(), []Command{succeed(run)})
		_, askErr := w.Request(t.Context(), []RunRequest{{Job: "report"}})
		_, jobErr := w.CommandJobs(t.Context(), []JobCommand{{Name: "report", Do: domain.PauseJob{}}})
		for what, err := range map[string]error{"claim": claimErr, "outcome": endErr, "request": askErr, "job": jobErr, "ping": w.Ping(t.Context())} {
			if sqlState(err) != stateOtherHistory || !IsTransient(err) {
				t.Errorf("%s in another %s: %v", what, column, err)
			}
		}
		var mismatch *EraMismatchError
		if _, err := Open(t.Context(), Config{DSN: w.dsn}); !errors.As(err, &mismatch) {
			t.Errorf("opened in another %s: %v", column, err)
		}
		w.exec(t, "UPDATE eras SET "+column+" = $1", kept)
	}
	if after := w.count(t, "SELECT count(*) FROM events"); after != before || w.count(t, "SELECT count(*) FROM claims") != 1 || w.count(t, "SELECT count(*) FROM due_runs") != 1 {
		t.Errorf("%d events became %d", before, after)
	}
	if a := w.execute(t, succeed(run))[0]; a.Err != nil {
		t.Errorf("back in its history: %v", a.Err)
	}
}
