package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// A history is kept as a folder, so that it can be judged again by a judge that
// knows more. Every file but two holds a JSON value a line:
//
//	settings.json     leases, margins, seed
//	jobs.jsonl        the jobs as they were handed in: what the owed instants are computed from
//	events.jsonl      the whole log
//	slots.jsonl       the ledger of instants
//	summaries.jsonl   the read model
//	journal.jsonl     what commands wrote about themselves
//	acts.jsonl        what the workers' witnesses saw
//	lives.jsonl       when each of these workers ended
//	sink.jsonl        the effects
//	dispatches.jsonl  what was written into the outbox
//	claims.jsonl      the transactions that wrote claims
//	asked.jsonl       what clients asked for
//	faults.jsonl      what was done to the system, and when
//	feed.jsonl        what subscribers got
//	tail.jsonl        what a reader of the log got
//	left.json         rows and messages left when all was over
//
// A file that is not there is a witness that was not heard.

type storedEvent struct {
	Category      domain.Category `json:"category"`
	StreamID      uuid.UUID       `json:"stream"`
	Version       int             `json:"version"`
	Position      int64           `json:"position"`
	Era           int             `json:"era"`
	Type          string          `json:"type"`
	SchemaVersion int             `json:"schema"`
	At            time.Time       `json:"at"`
	Actor         string          `json:"actor,omitempty"`
	Data          json.RawMessage `json:"data"`
}

type storedSummary struct {
	Run uuid.UUID `json:"run"`
	Summary
}

// Save writes the history into the folder, which it makes.
func (h History) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	events := make([]storedEvent, len(h.Events))
	for i, e := range h.Events {
		events[i] = storedEvent{e.Category, e.StreamID, e.Version, e.Position, e.Era, e.Type, e.SchemaVersion, e.At, e.Actor, e.Data}
	}
	var summaries []storedSummary
	for id, s := range h.Summaries {
		summaries = append(summaries, storedSummary{id, s})
	}
	return errors.Join(
		saveValue(dir, "settings.json", h.Settings), saveValue(dir, "left.json", h.Left),
		save(dir, "jobs.jsonl", h.Jobs), save(dir, "events.jsonl", events), save(dir, "slots.jsonl", h.Slots), save(dir, "summaries.jsonl", summaries),
		save(dir, "journal.jsonl", h.Journal), save(dir, "acts.jsonl", h.Acts), save(dir, "lives.jsonl", h.Lives), save(dir, "sink.jsonl", h.Sink),
		save(dir, "dispatches.jsonl", h.Dispatches), save(dir, "claims.jsonl", h.Claims), save(dir, "asked.jsonl", h.Asked),
		save(dir, "faults.jsonl", h.Faults), save(dir, "feed.jsonl", h.Feed), save(dir, "tail.jsonl", h.Tail))
}

// Load reads a folder that Save wrote.
func Load(dir string) (h History, err error) {
	var events []storedEvent
	var summaries []storedSummary
	if _, err := os.Stat(filepath.Join(dir, "events.jsonl")); err != nil {
		return h, fmt.Errorf("%s holds no history: want a folder with events.jsonl in it: %w", dir, err)
	}
	err = errors.Join(
		loadValue(dir, "settings.json", &h.Settings), loadValue(dir, "left.json", &h.Left),
		load(dir, "jobs.jsonl", &h.Jobs), load(dir, "events.jsonl", &events), load(dir, "slots.jsonl", &h.Slots), load(dir, "summaries.jsonl", &summaries),
		load(dir, "journal.jsonl", &h.Journal), load(dir, "acts.jsonl", &h.Acts), load(dir, "lives.jsonl", &h.Lives), load(dir, "sink.jsonl", &h.Sink),
		load(dir, "dispatches.jsonl", &h.Dispatches), load(dir, "claims.jsonl", &h.Claims), load(dir, "asked.jsonl", &h.Asked),
		load(dir, "faults.jsonl", &h.Faults), load(dir, "feed.jsonl", &h.Feed), load(dir, "tail.jsonl", &h.Tail))
	h.Events = make([]eventstore.Recorded, len(events))
	for i, e := range events {
		h.Events[i] = eventstore.Recorded{Category: e.Category, StreamID: e.StreamID, Version: e.Version, Position: e.Position, Era: e.Era,
			Type: e.Type, SchemaVersion: e.SchemaVersion, At: e.At, Actor: e.Actor, Data: e.Data}
	}
	h.Summaries = make(map[uuid.UUID]Summary, len(summaries))
	for _, s := range summaries {
		h.Summaries[s.Run] = s.Summary
	}
	return h, err
}

func saveValue(dir, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name), append(b, '\n'), 0o644)
}

func loadValue(dir, name string, v any) error {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// save leaves no file for a nil slice: nobody looked is not the same as nothing
// was seen.
func save[T any](dir, name string, all []T) error {
	if all == nil {
		return nil
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	enc := json.NewEncoder(w)
	for i := range all {
		if err := enc.Encode(&all[i]); err != nil {
			_ = f.Close()
			return fmt.Errorf("%s line %d: %w", name, i+1, err)
		}
	}
	return errors.Join(w.Flush(), f.Close())
}

func load[T any](dir, name string, all *[]T) error {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	out := []T{}
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<20))
	for dec.More() {
		var v T
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("%s value %d: %w", name, len(out)+1, err)
		}
		out = append(out, v)
	}
	*all = out
	return nil
}
