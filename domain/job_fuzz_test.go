package domain

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// jobEventOf makes an event of a byte or two; names are few, so that sequences
// are often legal.
func jobEventOf(kind, n byte) JobEvent {
	spec := JobSpec{Name: []string{"report", "other"}[n%2&(n>>7)], Priority: int(n % 10)}
	at := goldenAt.Add(time.Duration(n) * time.Second)
	switch kind % 7 {
	case 0:
		return JobCreated{Spec: spec, Reason: "r"}
	case 1:
		return JobUpdated{Spec: spec, Changed: []string{"priority"}}
	case 2:
		return JobPaused{Reason: string(rune('a' + n%26))}
	case 3:
		return JobResumed{}
	case 4:
		return JobArchived{}
	case 5:
		return FiresSkipped{From: at, To: at, Count: int(n), Reason: SkipMisfire}
	}
	return ZoneRulesChanged{Zone: "UTC", Fingerprint: "f"}
}

// FuzzFoldJob: no sequence of events brings a reader down; what is refused
// changes nothing; and what a command decides can be folded.
func FuzzFoldJob(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 2, 1, 3, 0, 5, 9, 4, 0, 0, 2})
	f.Add([]byte{0, 0, 4, 0, 1, 0, 0, 1, 6, 0})
	f.Add([]byte{2, 0, 0, 255, 1, 254})
	f.Fuzz(func(t *testing.T, data []byte) {
		j := Job{ID: JobID("report")}
		at := goldenAt
		for ; len(data) >= 2; data = data[2:] {
			e := jobEventOf(data[0], data[1])
			at = at.Add(time.Second)
			next, err := EvolveJob(j, e, at)
			var illegal *IllegalEventError
			if err != nil {
				if !errors.As(err, &illegal) || !reflect.DeepEqual(next, j) || illegal.Why == "" {
					t.Fatalf("%#v after %#v: %#v, %v", e, j, next, err)
				}
				continue
			}
			if next.Version != j.Version+1 || next.SpecVersion < 1 || next.SpecVersion > next.Version || !next.ChangedAt.Equal(at) {
				t.Fatalf("%#v led from %#v to %#v", e, j, next)
			}
			if j.Version > 0 && !j.Archived && next.Spec.Name != j.Spec.Name {
				t.Fatalf("%#v renamed %#v", e, j)
			}
			j = next
		}
		spec := j.Spec
		if spec.Name == "" {
			spec.Name = "report"
		}
		spec.Priority = (spec.Priority + 1) % 10
		for _, c := range []JobCommand{ApplyJob{Spec: spec}, ApplyJob{Spec: spec, Paused: true}, PauseJob{}, ResumeJob{}, ArchiveJob{}} {
			decided, err := DecideJob(j, c)
			var refusal *JobRefusal
			if err != nil && !errors.As(err, &refusal) {
				t.Fatalf("%#v of %#v: %v", c, j, err)
			}
			after := j
			for _, e := range decided {
				if after, err = EvolveJob(after, e, at); err != nil {
					t.Fatalf("%#v of %#v decided %#v: %v", c, j, e, err)
				}
			}
			if again, err := DecideJob(after, c); refusal == nil && (err != nil || len(again) > 0) {
				t.Fatalf("%#v of %#v, repeated: %#v, %v", c, j, again, err)
			}
		}
	})
}
