package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/internal/client"
)

// What is still in order.
const (
	maxListLag  = 10 * time.Second
	maxPackAge  = 10 * time.Second
	maxClockOff = time.Second
)

// rows checks what the database tells of the parts.
func (d *doctor) rows(ctx context.Context, c client.Client) {
	for _, check := range []struct {
		name string
		do   func(ctx context.Context, c client.Client) error
	}{
		{"clock", d.clock}, {"engines", d.engines}, {"workers", d.workers}, {"parked runs", d.parked},
		{"outbox", d.outbox}, {"read model", d.readModel},
	} {
		bounded(ctx, func(ctx context.Context) {
			if err := check.do(ctx, c); err != nil {
				d.note(check.name, failing, err.Error(), "")
			}
		})
	}
}

// clock compares with the middle of the question's time, in which the answer was
// made.
func (d *doctor) clock(ctx context.Context, c client.Client) error {
	began := time.Now()
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	off := st.Now.Sub(began.Add(took / 2))
	text := fmt.Sprintf("the database is %s ahead of this machine", rough(off))
	if off < 0 {
		text = fmt.Sprintf("the database is %s behind this machine", rough(-off))
	}
	if off.Abs() > maxClockOff+took {
		d.note("clock", doubt, text, "the database's clock decides what is due: let NTP set both")
		return nil
	}
	d.note("clock", fine, text, "")
	return nil
}

func (d *doctor) engines(ctx context.Context, c client.Client) error {
	engines, err := c.Engines(ctx)
	if err != nil {
		return err
	}
	if len(engines) == 0 {
		d.note("engines", failing, "none was heard of in the last 15s", "start one: 'daybook dev' or 'daybook serve'")
		return nil
	}
	var names, roles []string
	for _, e := range engines {
		names = append(names, e.ID)
		roles = append(roles, strings.Split(e.Roles, ",")...)
	}
	for _, role := range []string{"engine", "relay", "projections", "api"} {
		if !slices.Contains(roles, role) {
			d.note("engines", failing, "none has the role "+role, "start one with --roles "+role)
			return nil
		}
	}
	d.note("engines", fine, strings.Join(names, ", "), "")
	return nil
}

// workers looks for lanes that nobody serves: those with runs, and those that
// jobs have.
func (d *doctor) workers(ctx context.Context, c client.Client) error {
	workers, err := c.Workers(ctx)
	if err != nil {
		return err
	}
	served := map[client.Lane]bool{}
	slots := 0
	for _, w := range workers {
		slots += w.Slots
		for _, l := range w.Lanes {
			served[l] = true
		}
	}
	if len(workers) == 0 {
		d.note("workers", doubt, "none was heard of in the last 15s", "runs wait: start one, for example 'daybook worker --allow-exec'")
	} else {
		d.note("workers", fine, fmt.Sprintf("%s, %s", count(len(workers), "worker"), count(slots, "slot")), "")
	}
	needed := map[client.Lane]string{}
	jobs, err := allJobs(ctx, c, false)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		lane := client.Lane{Queue: j.Spec.Queue, Kind: j.Spec.Kind}
		needed[lane] = cmp.Or(needed[lane], "job "+j.Name)
	}
	lanes, err := c.Queues(ctx)
	if err != nil {
		return err
	}
	for _, l := range lanes {
		if l.Due > 0 {
			needed[client.Lane{Queue: l.Queue, Kind: l.Kind}] = count(l.Due, "run") + " due"
		}
	}
	var alone []string
	for lane, who := range needed {
		if !served[lane] {
			alone = append(alone, fmt.Sprintf("queue %s kind %s (%s)", lane.Queue, lane.Kind, who))
		}
	}
	slices.Sort(alone)
	if len(alone) > 0 {
		d.note("kinds", doubt, "no worker declares "+strings.Join(alone, ", "), "start a worker that does")
		return nil
	}
	d.note("kinds", fine, "every kind that jobs have is declared by a worker", "")
	return nil
}

func (d *doctor) parked(ctx context.Context, c client.Client) error {
	const most = 100
	parked, err := c.Parked(ctx, most)
	if err != nil {
		return err
	}
	switch n := len(parked); {
	case n == 0:
		d.note("parked runs", fine, "none", "")
	default:
		text := count(n, "run")
		if n == most {
			text = fmt.Sprintf("%d runs or more", n)
		}
		d.note("parked runs", doubt, fmt.Sprintf("%s put aside, the last %s: %s", text, parked[0].RunID, parked[0].Reason),
			"see 'daybook run parked'; mend the cause and use 'daybook run unpark', or cancel them")
	}
	return nil
}

func (d *doctor) outbox(ctx context.Context, c client.Client) error {
	s, err := c.OutboxStatus(ctx, 1)
	if err != nil {
		return err
	}
	last := ""
	if len(s.Packs) > 0 {
		last = s.Packs[0].LastError
	}
	switch {
	case s.Parked.Packs > 0:
		d.note("outbox", doubt, because(count(s.Parked.Packs, "pack")+" parked", last), "see 'daybook outbox status', then 'daybook outbox replay'")
	case s.Failed.Packs > 0:
		d.note("outbox", doubt, because(count(s.Failed.Packs, "pack")+" failed, tried again", last), "is NATS reachable from the engines?")
	case s.Pending.Oldest.Std() > maxPackAge:
		d.note("outbox", doubt, fmt.Sprintf("%s pending, the oldest for %s", count(s.Pending.Packs, "pack"), rough(s.Pending.Oldest.Std())), "is an engine with the role relay running?")
	default:
		d.note("outbox", fine, fmt.Sprintf("%s pending", count(s.Pending.Packs, "pack")), "")
	}
	return nil
}

func (d *doctor) readModel(ctx context.Context, c client.Client) error {
	all, err := c.Projections(ctx)
	if err != nil {
		return err
	}
	l := all[0].Lag
	behind := rough(l.Behind.Std()) + " behind the log"
	switch {
	case l.Parked > 0:
		d.note("read model", doubt, fmt.Sprintf("%s cannot be applied", count(l.Parked, "stream")), "see the table projection_parked")
	case l.Owner == "":
		d.note("read model", doubt, "nobody follows the log, "+behind, "is an engine with the role projections running?")
	case l.Behind.Std() > maxListLag:
		d.note("read model", doubt, behind, "lists are that old; it catches up, or its engine is overloaded")
	default:
		d.note("read model", fine, behind, "")
	}
	return nil
}
