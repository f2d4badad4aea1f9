package domain

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
)

// FuzzDecodeEvent: no stored bytes bring a reader down, and what is read is
// written so that it reads the same.
func FuzzDecodeEvent(f *testing.F) {
	files, err := filepath.Glob("testdata/events/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(goldenName.FindStringSubmatch(filepath.Base(file))[1], 1, data)
	}
	f.Add("RunStarted", 2, []byte(`{}`))
	f.Add("RunScheduled", 1, []byte(`{"args": null, "scheduled_at": "0000-01-01T00:00:00+23:59"}`))
	f.Fuzz(func(t *testing.T, typ string, version int, data []byte) {
		e, err := DecodeEvent(typ, version, data)
		if err != nil {
			if _, known := decoders[typ]; !errors.Is(err, ErrUnknownEvent) && (!known || version != SchemaVersion) {
				t.Fatalf("%s v%d: %v", typ, version, err)
			}
			return
		}
		if e.EventType() != typ {
			t.Fatalf("%s decoded to a %s", typ, e.EventType())
		}
		first, err := EncodeEvent(e)
		if err != nil {
			t.Fatalf("%#v: %v", e, err)
		}
		again, err := DecodeEvent(typ, version, first)
		if err != nil {
			t.Fatalf("%s written as %s: %v", typ, first, err)
		}
		if second, err := EncodeEvent(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s written as %s, then as %s, %v", typ, first, second, err)
		}
	})
}

// runEventOf makes an event of a few bytes; claims are few, so that sequences
// are often legal.
func runEventOf(kind, claim, n byte) RunEvent {
	id := uuid.UUID{15: claim % 3}
	attempt := int(int8(n))
	at := goldenAt.Add(time.Duration(n) * time.Second)
	switch kind % 13 {
	case 0:
		return RunScheduled{JobID: goldenJob, ScheduledAt: at, ReadyAt: at}
	case 1:
		return RunClaimed{ClaimID: id, LeaseUntil: at, Dispatch: attempt}
	case 2:
		return RunStarted{ClaimID: id, Token: goldenToken, Attempt: attempt, LeaseUntil: at}
	case 3:
		return RunReleased{ClaimID: id, Op: OpExpire, ReadyAt: at}
	case 4:
		return RunRetryScheduled{ClaimID: id, Op: OpFail, Attempt: attempt, ReadyAt: at}
	case 5:
		return RunSnoozed{ClaimID: id, Attempt: attempt, ReadyAt: at}
	case 6:
		return RunInterrupted{ClaimID: id, Attempt: attempt, ReadyAt: at}
	case 7:
		return RunCancelRequested{ClaimID: id}
	case 8:
		return RunSucceeded{ClaimID: id, Attempt: attempt}
	case 9:
		return RunFailed{ClaimID: id, Op: OpFail, Attempt: attempt}
	case 10:
		return RunCancelled{ClaimID: &id, Op: OpFail}
	case 11:
		return RunCancelled{Op: OpCancel}
	}
	return RunSkipped{Reason: "overlap"}
}

// FuzzFoldRun: no sequence of events brings a reader down; what it accepts is a
// life that a run can have, and commands on it are answered.
func FuzzFoldRun(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 1, 1, 2, 1, 1, 8, 1, 1})
	f.Add([]byte{0, 0, 0, 1, 1, 1, 3, 1, 0, 1, 2, 2, 2, 2, 1, 7, 2, 0, 10, 2, 0})
	f.Add([]byte{0, 0, 0, 1, 1, 1, 2, 1, 1, 5, 1, 1, 1, 2, 1, 2, 2, 1, 4, 2, 1, 12, 0, 0})
	f.Add([]byte{1, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := Run{ID: goldenOther}
		for at := goldenAt; len(data) >= 3; data = data[3:] {
			e := runEventOf(data[0], data[1], data[2])
			at = at.Add(time.Second)
			next, err := EvolveRun(r, e, at)
			var illegal *IllegalEventError
			if err != nil {
				if !errors.As(err, &illegal) || next.Version != r.Version || next.State != r.State || err.Error() == "" {
					t.Fatalf("%#v after %#v: %#v, %v", e, r, next, err)
				}
				continue
			}
			if r.State.Terminal() || next.Version != r.Version+1 {
				t.Fatalf("%#v was accepted after %#v", e, r)
			}
			r = next
			if r.Attempt < 0 || r.Dispatches < 0 || r.Dispatches > r.Claims || r.InHand() != (r.State == Claimed || r.State == Running) {
				t.Fatalf("%#v led to %#v", e, r)
			}
			if r.State.Terminal() != (r.Final != nil) || !r.InHand() && (r.ClaimID != uuid.Nil || r.CancelRequested || r.start != nil) {
				t.Fatalf("%#v led to %#v", e, r)
			}
		}
		n := binary.LittleEndian.Uint64(append(data, make([]byte, 8)...))
		now := goldenAt.Add(time.Duration(n % uint64(time.Hour)))
		for _, c := range matrixCommands {
			d, err := DecideRun(r, c.do, now)
			var refusal *Refusal
			if err != nil && !errors.As(err, &refusal) {
				t.Fatalf("%#v: %v", c.do, err)
			}
			if err != nil || d.Repeat {
				continue
			}
			if _, err := EvolveRun(r, d.Event, EventTime(r.ChangedAt, now)); err != nil {
				t.Fatalf("%#v decided %#v: %v", c.do, d.Event, err)
			}
		}
	})
}

// FuzzCheckStorable: the check ends, and what is canonical stays so.
func FuzzCheckStorable(f *testing.F) {
	for _, s := range []string{`{"a":"\u0000"}`, `"\ud83d\ude00"`, `[1e400,-0.0]`, `"\`, `-`, "\"\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := CheckStorable(raw)
		if once := canonical(raw); err == nil && !bytes.Equal(once, canonical(once)) {
			t.Fatalf("%s: canonical %s, again %s", raw, once, canonical(once))
		}
	})
}
