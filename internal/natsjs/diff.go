package natsjs

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is one setting on the server that is not what Daybook needs.
type Difference struct {
	Object string // "stream DAYBOOK_DISPATCH", "consumer mail+send-email+…"
	Field  string // the server's name of the setting, such as max_age
	Server string // what stands there
	Want   string
}

// MismatchError lists every difference found. Nothing has been changed on the server.
type MismatchError struct{ Differences []Difference }

func (e *MismatchError) Error() string {
	var b strings.Builder
	object := ""
	for _, d := range e.Differences {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		if d.Object != object {
			object = d.Object
			b.WriteString(object + " differs: ")
		}
		fmt.Fprintf(&b, "%s: server %s, want %s", d.Field, d.Server, d.Want)
	}
	return b.String()
}

// diffStream compares every setting, also those Daybook leaves alone: a mirror, a seal or a republish that
// somebody added changes what the stream does.
func diffStream(have, want jetstream.StreamConfig) []Difference {
	slices.Sort(have.Subjects)
	want.Subjects = slices.Sorted(slices.Values(want.Subjects))
	have.Metadata, want.Metadata = ownMetadata(have.Metadata), ownMetadata(want.Metadata)
	// These two say nothing about what the stream does, and only an operator knows where it should lie.
	have.Description, want.Description = "", ""
	have.Placement, want.Placement = nil, nil
	return diffFields("stream "+want.Name, have, want)
}

func diffConsumer(have, want jetstream.ConsumerConfig) []Difference {
	have.Metadata, want.Metadata = ownMetadata(have.Metadata), ownMetadata(want.Metadata)
	have.Description, want.Description = "", ""
	return diffFields("consumer "+want.Durable, have, want)
}

// ownMetadata leaves out what the server adds to every stream and consumer.
func ownMetadata(m map[string]string) map[string]string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	if len(m) == 0 {
		return nil
	}
	return m
}

// diffFields compares field by field, so that a setting of a newer client library is compared as soon as it exists.
func diffFields[T any](object string, have, want T) []Difference {
	var diffs []Difference
	h, w := reflect.ValueOf(have), reflect.ValueOf(want)
	for i := range h.NumField() {
		a, b := h.Field(i), w.Field(i)
		if reflect.DeepEqual(a.Interface(), b.Interface()) || isEmpty(a) && isEmpty(b) {
			continue
		}
		field, _, _ := strings.Cut(h.Type().Field(i).Tag.Get("json"), ",")
		diffs = append(diffs, Difference{Object: object, Field: field, Server: show(a), Want: show(b)})
	}
	return diffs
}

// isEmpty takes nil and empty slices and maps for the same.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// show writes a setting as it stands in NATS configuration: "workqueue", "file", "15m0s".
func show(v reflect.Value) string {
	if d, ok := reflect.TypeAssert[time.Duration](v); ok {
		return d.String()
	}
	b, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	switch s := strings.Trim(string(b), `"`); s {
	case "", "null", "[]", "{}":
		return "none"
	default:
		return s
	}
}
