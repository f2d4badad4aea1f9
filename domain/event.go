package domain

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Event is a fact: something that happened to a job or a run. The JSON form of
// an event is its stored form and is decoded for ever: fields are added, never
// renamed or given a new meaning.
type Event interface {
	// EventType is the stable name under which the event is stored.
	EventType() string
}

// Category is the kind of stream an event belongs to.
type Category string

// The categories of streams.
const (
	CategoryJob Category = "job"
	CategoryRun Category = "run"
)

// SchemaVersion is the version new events are written with. An older version is
// brought up to date when it is decoded.
const SchemaVersion = 1

// ErrUnknownEvent is wrapped by the error for an event type or schema version
// this binary does not know, which a newer binary wrote.
var ErrUnknownEvent = errors.New("unknown event")

// ErrUndecodable is wrapped by the error for stored data that is not what its
// type says.
var ErrUndecodable = errors.New("undecodable")

// CategoryOf is the category that the event's stream belongs to.
func CategoryOf(e Event) Category {
	if _, ok := e.(JobEvent); ok {
		return CategoryJob
	}
	return CategoryRun
}

var decoders = map[string]func([]byte) (Event, error){
	"JobCreated":         decode[JobCreated],
	"JobUpdated":         decode[JobUpdated],
	"JobPaused":          decode[JobPaused],
	"JobResumed":         decode[JobResumed],
	"JobArchived":        decode[JobArchived],
	"FiresSkipped":       decode[FiresSkipped],
	"ZoneRulesChanged":   decode[ZoneRulesChanged],
	"RunsRetired":        decode[RunsRetired],
	"RunScheduled":       decode[RunScheduled],
	"RunClaimed":         quick(scanClaimed),
	"RunStarted":         quick(scanStarted),
	"RunReleased":        decode[RunReleased],
	"RunRetryScheduled":  decode[RunRetryScheduled],
	"RunSnoozed":         decode[RunSnoozed],
	"RunInterrupted":     decode[RunInterrupted],
	"RunCancelRequested": decode[RunCancelRequested],
	"RunSucceeded":       quick(scanSucceeded),
	"RunFailed":          decode[RunFailed],
	"RunCancelled":       decode[RunCancelled],
	"RunSkipped":         decode[RunSkipped],
}

// DecodeEvent reads a stored event. Unknown fields are ignored: a newer binary
// may have written them.
func DecodeEvent(typ string, schemaVersion int, data []byte) (Event, error) {
	dec, ok := decoders[typ]
	if !ok {
		return nil, fmt.Errorf("%w: type %q", ErrUnknownEvent, typ)
	}
	if schemaVersion < 1 || schemaVersion > SchemaVersion {
		return nil, fmt.Errorf("%w: %s schema version %d, this binary knows up to %d", ErrUnknownEvent, typ, schemaVersion, SchemaVersion)
	}
	e, err := dec(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUndecodable, typ, err)
	}
	return e, nil
}

// EncodeEvent gives the stored form of an event.
func EncodeEvent(e Event) ([]byte, error) {
	if a, ok := e.(appender); ok {
		size := 256
		if _, short := e.(RunSucceeded); short {
			size = 80
		}
		if b, ok := a.appendJSON(make([]byte, 0, size)); ok {
			return b, nil
		}
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.EventType(), err)
	}
	return b, nil
}

func decode[E Event](data []byte) (Event, error) {
	var e E
	err := json.Unmarshal(data, &e)
	return e, err
}
