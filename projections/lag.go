package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// Lag is how far a projection is behind the log.
type Lag struct {
	Projection string          `json:"projection"`
	Behind     domain.Duration `json:"behind"`      // age of the oldest event not applied; 0 when there is none
	Events     int64           `json:"events"`      // not applied; an upper bound, since positions have gaps
	CatchingUp bool            `json:"catching_up"` // so far behind that Behind is the time since it was up to date
	Parked     int             `json:"parked"`      // streams that cannot be applied
	Owner      string          `json:"owner"`       // who follows; empty if nobody does
}

// Lag tells how far each of the follower's projections is, whoever follows it.
func (f *Follower) Lag(ctx context.Context) ([]Lag, error) {
	var names []string
	for _, m := range f.members {
		names = append(names, m.Name())
	}
	return lags(ctx, f.store, names)
}

// Index: checkpoints_pkey, projection_parked_pkey.
const selectLag = `
SELECT n, coalesce(c.cursor, '{"era": 0}'), CASE WHEN c.lease_until > now() THEN c.owner ELSE '' END, now(),
       (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM event_position),
       (SELECT min(raised_at) FROM eras),
       (SELECT count(*) FROM projection_parked p WHERE p.projection = n)
  FROM unnest($1::text[]) AS n LEFT JOIN checkpoints c ON c.name = n`

// nearby is how many events are counted as lag by looking at the first of them;
// beyond, that would cost more than it tells.
const nearby = 100_000

func lags(ctx context.Context, store *eventstore.Store, names []string) ([]Lag, error) {
	rows, err := store.Pool().Query(ctx, selectLag, names)
	if err != nil {
		return nil, fmt.Errorf("read lag: %w", err)
	}
	type place struct {
		at         checkpoint
		now, began time.Time
	}
	var places []place
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Lag, error) {
		var l Lag
		var p place
		var owner *string
		var last int64
		err := row.Scan(&l.Projection, &p.at, &owner, &p.now, &last, &p.began, &l.Parked)
		if owner != nil {
			l.Owner = *owner
		}
		l.Events = max(0, last-p.at.Applied)
		places = append(places, p)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("read lag: %w", err)
	}
	for i := range out {
		l, p := &out[i], places[i]
		if l.Events == 0 {
			continue
		}
		if l.Events > nearby || p.at.Scan != nil {
			l.CatchingUp = true
			l.Behind = domain.Duration(p.now.Sub(p.began))
			if !p.at.Through.IsZero() {
				l.Behind = domain.Duration(p.now.Sub(p.at.Through))
			}
			continue
		}
		first, _, err := store.Read(ctx, p.at.Cursor, 1)
		if err != nil {
			return nil, err
		}
		if len(first) == 0 { // positions drawn by transactions that rolled back
			l.Events = 0
			continue
		}
		l.Behind = max(0, domain.Duration(p.now.Sub(first[0].At)))
	}
	return out, nil
}
