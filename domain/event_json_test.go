package domain

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The shorter way to write an event gives what encoding/json gives.
func TestEventsAreWrittenAsEncodingJSONDoes(t *testing.T) {
	id, token := uuid.MustParse("5f0c1a52-7c1f-4b57-9d0e-0d8f6f1b2a33"), uuid.MustParse("c0ffee00-1234-4abc-8def-001122334455")
	at := time.Date(2026, 3, 8, 7, 31, 0, 0, time.UTC)
	elsewhere := at.In(time.FixedZone("", 3600))
	for _, e := range []Event{
		RunClaimed{ClaimID: id, LeaseUntil: at, Dispatch: 2},
		RunClaimed{ClaimID: id, LeaseUntil: at.Add(123456 * time.Microsecond)},
		RunClaimed{ClaimID: id, LeaseUntil: elsewhere},
		RunClaimed{},
		RunStarted{ClaimID: id, Token: token, Worker: "host-1/4711", Attempt: 1, LeaseUntil: at, Deadline: &at},
		RunStarted{ClaimID: id, Token: token, Worker: "", Attempt: 12, LeaseUntil: at.Add(time.Nanosecond)},
		RunStarted{ClaimID: id, Token: token, Worker: `a"<b>&\ä`, LeaseUntil: at, Deadline: &elsewhere},
		RunSucceeded{ClaimID: id, Attempt: 3},
	} {
		have, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != string(want) {
			t.Errorf("%s: %s, want %s", e.EventType(), have, want)
		}
	}
	for _, e := range []Event{RunClaimed{LeaseUntil: at.AddDate(9000, 0, 0)}, RunStarted{LeaseUntil: at.AddDate(9000, 0, 0)}} {
		if b, err := EncodeEvent(e); err == nil {
			t.Errorf("%s of a year that cannot be written: %s", e.EventType(), b)
		}
	}
}
