package projections

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// CloudEvent is an event as consumers get it: CloudEvents 1.0 in its JSON format
// (https://github.com/cloudevents/spec, tag v1.0.2). Source and id together
// identify it; the sequence orders the events of a subject.
type CloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`     // stream id and version
	Source          string          `json:"source"` // /daybook/<deployment>/<era>
	Type            string          `json:"type"`   // daybook.run.claimed.v1
	Subject         string          `json:"subject"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype,omitempty"`
	PartitionKey    string          `json:"partitionkey"`
	Sequence        string          `json:"sequence"` // the version
	Actor           string          `json:"actor"`
	CorrelationID   string          `json:"correlationid,omitempty"`
	CausationID     string          `json:"causationid,omitempty"`
	Omitted         string          `json:"omitted,omitempty"` // why there is no data: read it from the API
	Data            json.RawMessage `json:"data,omitempty"`
}

// cloudEventTime has microseconds, as the log does.
const cloudEventTime = "2006-01-02T15:04:05.000000Z"

// NewCloudEvent makes the form in which an event leaves the log.
func NewCloudEvent(deployment string, r eventstore.Recorded) CloudEvent {
	return newCloudEvents(deployment).event(r)
}

// cloudEvents makes many. What they have in common with the one before, or with
// others of their type, is not made again.
type cloudEvents struct {
	deployment string
	era        int
	source     string
	at         time.Time
	time       string
	kinds      map[eventKind]eventNames
}

type eventKind struct {
	category domain.Category
	typ      string
	schema   int
}

type eventNames struct{ typ, token string }

func newCloudEvents(deployment string) *cloudEvents {
	return &cloudEvents{deployment: deployment, kinds: map[eventKind]eventNames{}}
}

func (c *cloudEvents) event(r eventstore.Recorded) CloudEvent {
	if c.source == "" || c.era != r.Era {
		c.era, c.source = r.Era, "/daybook/"+c.deployment+"/"+strconv.Itoa(r.Era)
	}
	if c.time == "" || !c.at.Equal(r.At) {
		c.at, c.time = r.At, r.At.UTC().Truncate(time.Microsecond).Format(cloudEventTime)
	}
	stream, version := r.StreamID.String(), strconv.Itoa(r.Version)
	e := CloudEvent{
		SpecVersion: "1.0", ID: stream + ":" + version, Source: c.source, Type: c.names(r).typ, Subject: stream,
		Time: c.time, DataContentType: "application/json", PartitionKey: stream, Sequence: version, Actor: r.Actor, Data: r.Data,
	}
	if r.Correlation != nil {
		e.CorrelationID = r.Correlation.String()
	}
	if r.Causation != nil {
		e.CausationID = r.Causation.String()
	}
	return e
}

// names are the event's type, and the last token of its subject.
func (c *cloudEvents) names(r eventstore.Recorded) eventNames {
	k := eventKind{r.Category, r.Type, r.SchemaVersion}
	n, ok := c.kinds[k]
	if !ok {
		n = eventNames{CloudEventType(r), string(r.Category) + "-" + eventToken(r.Category, r.Type)}
		c.kinds[k] = n
	}
	return n
}

// CloudEventType is the type of the event as consumers know it.
func CloudEventType(r eventstore.Recorded) string {
	return "daybook." + string(r.Category) + "." + eventToken(r.Category, r.Type) + ".v" + strconv.Itoa(r.SchemaVersion)
}

// appendJSON writes the event. Its data are what the database gave as jsonb, and
// are not parsed again.
func (e CloudEvent) appendJSON(b []byte) []byte {
	b = appendMember(b, `{"specversion":`, e.SpecVersion)
	b = appendMember(b, `,"id":`, e.ID)
	b = appendMember(b, `,"source":`, e.Source)
	b = appendMember(b, `,"type":`, e.Type)
	b = appendMember(b, `,"subject":`, e.Subject)
	b = appendMember(b, `,"time":`, e.Time)
	b = appendOptional(b, `,"datacontenttype":`, e.DataContentType)
	b = appendMember(b, `,"partitionkey":`, e.PartitionKey)
	b = appendMember(b, `,"sequence":`, e.Sequence)
	b = appendMember(b, `,"actor":`, e.Actor)
	b = appendOptional(b, `,"correlationid":`, e.CorrelationID)
	b = appendOptional(b, `,"causationid":`, e.CausationID)
	b = appendOptional(b, `,"omitted":`, e.Omitted)
	if len(e.Data) > 0 {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, '}')
}

func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendMember(b, name, value)
}

func appendMember(b []byte, name, value string) []byte {
	b = append(b, name...)
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(value) // a string always can be
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), value...), '"')
}

// withoutData is what consumers get of an event that the broker cannot carry:
// that it exists, so that the versions they see have no gap.
func (e CloudEvent) withoutData(why string) CloudEvent {
	e.Data, e.DataContentType, e.Omitted = nil, "", why
	return e
}

// eventToken is the event's name without its category, in lower case with
// hyphens: RunRetryScheduled of a run is retry-scheduled.
func eventToken(c domain.Category, typ string) string {
	if name, ok := strings.CutPrefix(typ, strings.ToUpper(string(c[:1]))+string(c[1:])); ok && name != "" {
		typ = name
	}
	var b strings.Builder
	b.Grow(len(typ) + 4)
	for i, r := range typ {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// partition spreads streams over the partitions of the feed.
func partition(stream string, partitions int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(stream))
	return int(h.Sum32() % uint32(partitions))
}
