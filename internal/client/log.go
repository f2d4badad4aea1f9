package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/eventstream"
)

// Events implements [Log].
func (d *Database) Events(ctx context.Context, q EventQuery) (EventPage, error) {
	at, err := d.cursor(ctx, q.From)
	if err != nil {
		return EventPage{}, err
	}
	found, err := eventstream.Query{
		From: at, Types: q.Types, Streams: q.Streams, Job: q.Job, Since: q.Since, Until: q.Until,
		Limit: min(cmp.Or(q.Limit, MaxEvents), MaxEvents), Wait: q.Wait,
	}.Page(ctx, d.store, nil)
	if err != nil {
		return EventPage{}, err
	}
	out := EventPage{Events: make([]Event, len(found.Records)), Next: Place{Cursor: found.Next.Encode()}, More: found.More}
	for i, r := range found.Records {
		out.Events[i] = eventstream.NewEvent(r)
	}
	return out, nil
}

func (d *Database) cursor(ctx context.Context, p Place) (eventstore.Cursor, error) {
	switch {
	case p.Cursor != "":
		c, err := eventstore.ParseCursor(p.Cursor)
		if err != nil {
			return c, &PlaceError{p.Cursor}
		}
		return c, nil
	case p.AtEnd:
		return d.store.End(ctx)
	}
	return d.store.After(ctx, p.After)
}

// PlaceError refuses a place in the log that no page ended with.
type PlaceError struct{ Cursor string }

func (e *PlaceError) Error() string {
	return fmt.Sprintf("%.40q is no place in the log: want what an earlier page or export ended with", e.Cursor)
}
