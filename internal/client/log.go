package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/eventstore"
)

// Events implements [Log].
func (d *Database) Events(ctx context.Context, from Place, limit int) ([]Event, Place, error) {
	at, err := d.cursor(ctx, from)
	if err != nil {
		return nil, from, err
	}
	recs, at, err := d.store.Read(ctx, at, limit)
	if err != nil {
		return nil, from, err
	}
	next, err := json.Marshal(at)
	if err != nil {
		return nil, from, err
	}
	out := make([]Event, len(recs))
	for i, r := range recs {
		out[i] = event(r)
	}
	return out, Place{cursor: string(next)}, nil
}

func (d *Database) cursor(ctx context.Context, p Place) (c eventstore.Cursor, err error) {
	switch {
	case p.cursor != "":
		if err := json.Unmarshal([]byte(p.cursor), &c); err != nil {
			return c, fmt.Errorf("place in the log: %w", err)
		}
		return c, nil
	case p.AtEnd:
		return d.store.End(ctx)
	}
	return d.store.After(ctx, p.After)
}
