package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Dispatches tells where claims lie that a worker is to get.
type Dispatches interface {
	// Waiting are the claims in the outbox, whatever state their packs are in.
	Waiting(ctx context.Context) (map[uuid.UUID]bool, error)
	// Sent are the claims that a message with the broker names, and when its
	// stream was made.
	Sent(ctx context.Context) (claims map[uuid.UUID]bool, stream time.Time, err error)
}

// ErrNoBroker is what Sent says when there is nobody to ask.
var ErrNoBroker = errors.New("no broker was given to ask")

// DispatchCheck is what came of looking for the dispatches of claims that nobody
// has started.
type DispatchCheck struct {
	Asked    bool   `json:"asked"`             // the broker was, and could be
	NotAsked string `json:"why_not,omitempty"` // why it was not
	Claims   int    `json:"unstarted_claims"`  // when it began; those that are counted nowhere below were started or closed meanwhile
	Outbox   int    `json:"in_outbox"`
	Broker   int    `json:"with_broker"`
	Gone     int    `json:"gone"` // neither, and not started all that time: violations
}

// dispatchLooks is how often what is missing is looked for. The first look finds
// all but what is sent again at that moment, and what a broker's new leader has
// not caught up with.
const (
	dispatchLooks = 3
	dispatchPause = 500 * time.Millisecond
)

// A message lives as long as the lease in whole seconds, so that of the last of
// them nothing follows. Nor does anything of claims from before a restore or a
// failover: they may have been started and acknowledged in what was lost.
//
// Index: none; claims holds runs in hand only, the other tables a row or two.
const (
	selectUnstarted = `
SELECT run_id, claim_id, lease_until FROM claims
 WHERE start_token IS NULL AND lease_until > now() + interval '5 seconds' AND changed_at >= (SELECT max(raised_at) FROM eras)`
	selectStream = `SELECT EXISTS (SELECT FROM dispatch_streams WHERE created_at = $1)`
)

type unstarted struct {
	run, claim uuid.UUID
	until      time.Time
}

// verifyDispatches looks for the dispatch of every claim that nobody has started. A
// claim is never started twice and never un-started, so one that is unstarted
// before and after was so all the time in between, in which its message was first
// looked for in the outbox and then, to where it moves, with the broker. From
// there it goes when a worker has an answer about it, which says that the claim is
// started or closed. What is still missing is lost, or was never sent.
func (a *Auditor) verifyDispatches(ctx context.Context, r *Report) error {
	missing, err := a.unstarted(ctx)
	if err != nil {
		return err
	}
	c := &r.Dispatch
	c.Claims = len(missing)
	if a.dispatches == nil {
		c.NotAsked = ErrNoBroker.Error()
		return nil
	}
	for look := 0; look == 0 || look < dispatchLooks && len(missing) > 0; look++ {
		if look > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(dispatchPause):
			}
		}
		if missing, err = a.look(ctx, c, missing); err != nil {
			*c = DispatchCheck{Claims: c.Claims, NotAsked: err.Error()}
			return ctx.Err()
		}
	}
	c.Asked, c.Gone = true, len(missing)
	for _, u := range missing {
		r.add(RuleDispatch, u.run, "nobody has started claim %s, and it lies neither in the outbox nor with the broker: its run waits until %s, when the lease ends", u.claim, clock(u.until))
	}
	return nil
}

// look returns those of the claims that nobody has started meanwhile and that lie
// nowhere.
func (a *Auditor) look(ctx context.Context, c *DispatchCheck, claims []unstarted) ([]unstarted, error) {
	waiting, err := a.dispatches.Waiting(ctx)
	if err != nil {
		return nil, err
	}
	sent, made, err := a.dispatches.Sent(ctx)
	if err != nil {
		return nil, err
	}
	var known bool
	if err := a.store.Pool().QueryRow(ctx, selectStream, made.UTC().Truncate(time.Microsecond)).Scan(&known); err != nil {
		return nil, fmt.Errorf("read dispatch streams: %w", err)
	}
	if !known {
		return nil, errors.New("the broker's stream is new, and no engine has sent its claims again yet")
	}
	claims = slices.DeleteFunc(claims, func(u unstarted) bool {
		switch {
		case waiting[u.claim]:
			c.Outbox++
		case sent[u.claim]:
			c.Broker++
		default:
			return false
		}
		return true
	})
	if len(claims) == 0 {
		return nil, nil
	}
	open, err := a.unstarted(ctx)
	if err != nil {
		return nil, err
	}
	still := make(map[uuid.UUID]bool, len(open))
	for _, u := range open {
		still[u.claim] = true
	}
	return slices.DeleteFunc(claims, func(u unstarted) bool { return !still[u.claim] }), nil
}

func (a *Auditor) unstarted(ctx context.Context) (found []unstarted, err error) {
	rows, err := a.store.Pool().Query(ctx, selectUnstarted)
	if err == nil {
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (u unstarted, err error) {
			return u, row.Scan(&u.run, &u.claim, &u.until)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read claims: %w", err)
	}
	return found, nil
}
