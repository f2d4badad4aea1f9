package natsjs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PartialError says which messages of a batch were not stored, or not known to be. All others are stored.
type PartialError struct {
	Failed map[int]error // by index in the call's messages
	Total  int           // messages in the call
}

// How many failures Error spells out; a full stream fails a whole batch with the same words.
const shownFailures = 3

func (e *PartialError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d messages not published", len(e.Failed), e.Total)
	for n, i := range slices.Sorted(maps.Keys(e.Failed)) {
		if n == shownFailures {
			b.WriteString("; …")
			break
		}
		fmt.Fprintf(&b, "; message %d: %v", i, e.Failed[i])
	}
	return b.String()
}

var (
	// ErrUnpublishable marks a message that was refused before it was sent: its subject, a header or its
	// generation is not valid.
	ErrUnpublishable = errors.New("unpublishable message")

	// ErrDuplicate marks a message of a generation above 0 whose Nats-Msg-Id the stream knows already: it was not
	// stored. The cause may be a repeat of an attempt whose outcome was unknown; anything else needs a new generation.
	ErrDuplicate = errors.New("message id already known to the stream, message not stored")

	// ErrNoAck marks a message for which no answer came in time. It may be stored or not; a repeat with the same
	// Nats-Msg-Id settles that.
	ErrNoAck = errors.New("no acknowledgement, outcome unknown")
)

// Codes of the 400 class that tell of the stream's or the account's state and not of the message. The client has
// no names for them.
var stateCodes = []jetstream.ErrorCode{
	10002, // resource limits of the account
	10109, // stream is sealed
	10166, // stream does not take TTLs
}

// Permanent reports whether publishing the same message again cannot succeed, so that it must be parked or
// dropped: too large, refused subject, wrong stream, a header the server refuses, a known id. Everything else (no
// connection, no answer, a full stream, an overloaded or electing server, and whatever is not known) is worth a
// retry. A *PartialError is permanent if each of its failures is.
func Permanent(err error) bool {
	if partial, ok := errors.AsType[*PartialError](err); ok {
		for _, e := range partial.Failed {
			if !Permanent(e) {
				return false
			}
		}
		return len(partial.Failed) > 0
	}
	for _, target := range []error{ErrUnpublishable, ErrDuplicate, nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg} {
		if errors.Is(err, target) {
			return true
		}
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.Code == 400 && !slices.Contains(stateCodes, api.ErrorCode)
}

// Failures gives the failed messages by index, for callers that know only their own port.
func (e *PartialError) Failures() map[int]error { return e.Failed }

// Permanent reports whether message i would fail again.
func (e *PartialError) Permanent(i int) bool { return Permanent(e.Failed[i]) }
