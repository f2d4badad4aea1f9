package domain

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

var (
	benchNow = time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)
	benchID  = uuid.MustParse("5f0c1a52-7c1f-4b57-9d0e-0d8f6f1b2a33")
)

func pendingRun() Run {
	return Run{ID: benchID, JobID: benchID, JobVersion: 1, Origin: OriginRequest, Queue: "q", Kind: "k", Priority: 5,
		ScheduledAt: benchNow, ReadyAt: benchNow, ChangedAt: benchNow, Version: 1, State: Pending}
}

// life takes a run from pending to its end, as the hot path does.
func life(tb testing.TB) {
	r := pendingRun()
	for _, c := range []RunCommand{
		ClaimRun{ClaimID: benchID, Lease: time.Minute},
		StartRun{ClaimID: benchID, Token: benchID, Worker: "w", Timeout: time.Hour, ExecutionTerms: ExecutionTerms{Lease: time.Minute}},
		SucceedRun{ClaimID: benchID},
	} {
		d, err := DecideRun(r, c, benchNow)
		if err != nil {
			tb.Fatal(err)
		}
		if r, err = EvolveRun(r, d.Event, benchNow); err != nil {
			tb.Fatal(err)
		}
		if _, err := EncodeEvent(d.Event); err != nil {
			tb.Fatal(err)
		}
	}
	if r.State != Succeeded {
		tb.Fatalf("run is %s", r.State)
	}
}

func BenchmarkLife(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		life(b)
	}
}

func BenchmarkDecideClaim(b *testing.B) {
	b.ReportAllocs()
	r := pendingRun()
	for b.Loop() {
		if _, err := DecideRun(r, ClaimRun{ClaimID: benchID, Lease: time.Minute}, benchNow); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeEvent(b *testing.B) {
	events := []Event{
		RunClaimed{ClaimID: benchID, LeaseUntil: benchNow, Dispatch: 1},
		RunStarted{ClaimID: benchID, Token: benchID, Worker: "w", Attempt: 1, LeaseUntil: benchNow, Deadline: &benchNow},
		RunSucceeded{ClaimID: benchID, Attempt: 1},
	}
	for _, e := range events {
		b.Run(e.EventType(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := EncodeEvent(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	data, err := EncodeEvent(RunStarted{ClaimID: benchID, Token: benchID, Worker: "w", Attempt: 1, LeaseUntil: benchNow})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent("RunStarted", SchemaVersion, data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKeyID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		KeyID(benchID, "a key of some length", benchNow)
	}
}
