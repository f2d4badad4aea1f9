package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

// Where every instant has all six digits, the encoding is that of encoding/json.
func TestEncodeIsThatOfTheStandardLibrary(t *testing.T) {
	at := time.Date(2026, 3, 8, 7, 30, 0, 123456000, time.UTC)
	id := uuid.New()
	progress := float32(0.5)
	type embedded struct {
		client.Triggered
		Run projections.RunDetail `json:"run"`
	}
	summary := projections.RunSummary{RunID: id, Job: "a <b> & c", ScheduledAt: at, ReadyAt: at, ChangedAt: at, ClaimID: &id, StartedAt: &at, State: domain.Running}
	for _, v := range []any{
		nil, 1, "x", []string(nil), []string{}, map[string]int{"b": 1, "a": 2}, map[string]any{"x": nil, "t": at}, []byte("bytes"), true,
		projections.RunPage{Runs: []projections.RunSummary{summary, {ScheduledAt: at, ReadyAt: at, ChangedAt: at}}, Lag: projections.Lag{Behind: domain.Duration(time.Minute)}},
		embedded{Run: projections.RunDetail{RunSummary: summary, Args: json.RawMessage(`{"b": [1, 2]}`)}},
		client.Output{RunID: id, Text: "\u2028<&>", Progress: &progress, UpdatedAt: at, Head: []byte("x")},
		client.Job{Name: "x", CreatedAt: at, ChangedAt: at, MaterializedThrough: at, Spec: domain.JobSpec{Name: "x", StartAt: &at, Target: json.RawMessage(`null`)}},
		projections.RunFilter{Since: at}, projections.RunFilter{},
		[2]int{1, 2}, struct {
			A int `json:",omitempty"`
			B *int
			c int
		}{},
	} {
		got, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != want.String() {
			t.Errorf("%T:\n%s\nwant\n%s", v, got, want.String())
		}
	}
}

func TestEncodedInstantsHaveOneForm(t *testing.T) {
	whole := time.Date(2026, 3, 8, 3, 30, 0, 0, time.FixedZone("", -4*3600))
	type thing struct {
		At   time.Time  `json:"at"`
		Then *time.Time `json:"then,omitempty"`
		None *time.Time `json:"none,omitempty"`
		Zero time.Time  `json:"zero,omitzero"`
	}
	got, err := encode(map[string]any{"things": []thing{{At: whole, Then: &whole}}})
	const want = `{"things":[{"at":"2026-03-08T07:30:00.000000Z","then":"2026-03-08T07:30:00.000000Z"}]}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
