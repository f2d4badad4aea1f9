package natsjs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

// ErrUnsupported marks a server that cannot carry Daybook, whatever its streams look like: too old, or without
// JetStream. Waiting does not help, unlike with every other error of Ensure and Verify that is not a *MismatchError.
var ErrUnsupported = errors.New("unsupported NATS server")

// Oldest server with everything the topology uses. Earlier ones ignore settings instead of refusing them.
const minMajor, minMinor = 2, 14

// createTimeout bounds one creation, so that time is left to look what came of it.
const createTimeout = 3 * time.Second

// Info is what Ensure and Verify found.
type Info struct {
	ServerVersion   string
	Created         []string  // streams this call created
	DispatchCreated time.Time // the dispatch stream's incarnation, part of its consumers' names
}

// Ensure creates the streams that are absent and compares those that exist, and the consumers on the dispatch
// stream, with the topology. Differences are a *MismatchError; nothing that exists is changed.
//
// Replicas may call it at the same time.
func Ensure(ctx context.Context, js jetstream.JetStream, t Topology) (Info, error) {
	return examine(ctx, js, t, true)
}

// Verify is Ensure without creating: an absent stream is a difference.
func Verify(ctx context.Context, js jetstream.JetStream, t Topology) (Info, error) {
	return examine(ctx, js, t, false)
}

func examine(ctx context.Context, js jetstream.JetStream, t Topology, create bool) (Info, error) {
	var info Info
	if err := t.Check(); err != nil {
		return info, err
	}
	var err error
	if info.ServerVersion, err = checkServer(ctx, js); err != nil {
		return info, err
	}
	if err := checkPayload(js.Conn(), t); err != nil {
		return info, err
	}
	var diffs []Difference
	for _, want := range t.streams() {
		claims, err := otherClaims(ctx, js, want)
		if err != nil {
			return info, err
		}
		if len(claims) > 0 {
			diffs = append(diffs, claims...)
			continue // the server would refuse to create it, naming nobody
		}
		have, created, err := stream(ctx, js, want, create)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			diffs = append(diffs, Difference{"stream " + want.Name, "name", "absent", want.Name})
			continue
		}
		if err != nil {
			return info, fmt.Errorf("stream %s: %w", want.Name, err)
		}
		if created {
			info.Created = append(info.Created, want.Name)
		}
		diffs = append(diffs, diffStream(have.Config, want)...)
		if want.Name != protocol.DispatchStream {
			continue
		}
		info.DispatchCreated = have.Created
		if err := t.checkTTL(have.Config.MaxAge, have.Config.Duplicates); err != nil {
			diffs = append(diffs, Difference{"stream " + want.Name, "timing", err.Error(), "a relation that holds"})
		}
		lanes, err := diffConsumers(ctx, js, t, have.Created)
		if err != nil {
			return info, err
		}
		diffs = append(diffs, lanes...)
	}
	if len(diffs) > 0 {
		return info, &MismatchError{diffs}
	}
	return info, nil
}

// stream reads a stream, creating it first if it is absent and create is set.
func stream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, create bool) (*jetstream.StreamInfo, bool, error) {
	s, err := getStream(ctx, js, want.Name)
	if err == nil {
		return s.CachedInfo(), false, nil
	}
	if !create || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, false, err
	}
	attempt, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	s, createErr := js.CreateStream(attempt, want)
	if createErr == nil {
		return s.CachedInfo(), true, nil
	}
	// Perhaps somebody was faster. The refusal need not say so: two creations at a time reserve the storage twice, and
	// the second may not fit; and a young cluster may not answer the second at all.
	if s, err = getStream(ctx, js, want.Name); err != nil {
		return nil, false, createErr
	}
	return s.CachedInfo(), false, nil
}

// otherClaims finds streams that take messages from the subjects of want. Such a stream keeps ours from being
// created, or its messages from arriving.
func otherClaims(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) ([]Difference, error) {
	var diffs []Difference
	for _, subject := range want.Subjects {
		streams, err := listStreams(ctx, js, subject)
		if err != nil {
			return nil, fmt.Errorf("list streams on %s: %w", subject, err)
		}
		for _, s := range streams {
			if s.Config.Name != want.Name {
				diffs = append(diffs, Difference{"stream " + s.Config.Name, "subjects", strings.Join(s.Config.Subjects, ", "),
					fmt.Sprintf("none that overlaps %s of %s", subject, want.Name)})
			}
		}
	}
	return diffs, nil
}

// diffConsumers compares every consumer on the dispatch stream with the one its lane should have. A foreign one
// takes work away from the workers.
func diffConsumers(ctx context.Context, js jetstream.JetStream, t Topology, incarnation time.Time) ([]Difference, error) {
	s, err := getStream(ctx, js, protocol.DispatchStream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", protocol.DispatchStream, err)
	}
	consumers, err := listConsumers(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("list consumers of %s: %w", protocol.DispatchStream, err)
	}
	var diffs []Difference
	for _, c := range consumers {
		lane, ok := laneOf(c.Config)
		if !ok || c.Name != protocol.ConsumerName(lane.Queue, lane.Kind, incarnation) {
			diffs = append(diffs, Difference{"stream " + protocol.DispatchStream, "consumer " + c.Name,
				"present, filter " + show(filterValue(c.Config)), "absent: only the consumers of its lanes may read it"})
			continue
		}
		diffs = append(diffs, diffConsumer(c.Config, t.consumer(lane, incarnation))...)
		stands := t.Lease
		stands.AckWait, stands.MaxDeliver = c.Config.AckWait, c.Config.MaxDeliver
		if err := stands.Validate(); err != nil {
			diffs = append(diffs, Difference{"consumer " + c.Name, "timing", err.Error(), "a relation that holds"})
		}
	}
	slices.SortStableFunc(diffs, func(a, b Difference) int { return strings.Compare(a.Object, b.Object) })
	return diffs, nil
}

// checkServer tests what does not depend on streams, and returns the server's version.
func checkServer(ctx context.Context, js jetstream.JetStream) (string, error) {
	nc := js.Conn()
	version := nc.ConnectedServerVersion()
	if version == "" {
		return "", notConnected(nc)
	}
	if !atLeast(version, minMajor, minMinor) {
		return version, fmt.Errorf("%w: version %s, want %d.%d or later", ErrUnsupported, version, minMajor, minMinor)
	}
	_, err := ask(ctx, js.AccountInfo)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return version, fmt.Errorf("%w: JetStream is not enabled for the account of connection %q", ErrUnsupported, nc.Opts.Name)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return version, fmt.Errorf("%w: JetStream is not enabled; start nats-server with -js, or put a jetstream block into its configuration", ErrUnsupported)
	case err != nil:
		return version, fmt.Errorf("JetStream does not answer: %w", err)
	}
	return version, nil
}

// checkPayload tests that the server takes messages as large as the streams allow.
func checkPayload(nc *nats.Conn, t Topology) error {
	for _, s := range t.streams() {
		if limit := nc.MaxPayload(); limit > 0 && int64(s.MaxMsgSize) > limit {
			return &MismatchError{[]Difference{{"server " + nc.ConnectedServerName(), "max_payload",
				strconv.FormatInt(limit, 10), fmt.Sprintf("at least max_msg_size %d of stream %s", s.MaxMsgSize, s.Name)}}}
		}
	}
	return nil
}

// atLeast compares the first two numbers of a version such as 2.15.3 or 2.14.0-RC.1.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}
