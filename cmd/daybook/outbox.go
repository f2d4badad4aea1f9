package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
)

func newOutbox(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "outbox",
		Short: "Look at dispatches that are not published, publish them again",
		Long: `A claim and its dispatch are committed together; a relay publishes the dispatch. What is in
the outbox for more than a moment was not published: the broker is away, or refuses it.`,
		Example: "  daybook outbox status",
	}, newOutboxStatus(a), newOutboxReplay(a))
}

func newOutboxStatus(a *app) *cobra.Command {
	var out format
	var limit int
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what waits to be published",
		Long: `Shows how many packs are pending (published at any moment), failed (tried again) and parked
(waiting for somebody to look at them), and some of them one by one.`,
		Example: "  daybook outbox status\n  daybook outbox status -o json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("--limit %d: want 0 or more", limit)
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				s, err := c.OutboxStatus(ctx, limit)
				if err != nil {
					return err
				}
				return a.showOutbox(out, s)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "packs to show one by one")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) showOutbox(out format, s client.Outbox) error {
	if out.people() {
		type sum struct {
			state string
			client.Backlog
		}
		err := write(a, out, list[sum]{
			items: []sum{{"pending", s.Pending}, {"failed", s.Failed}, {"parked", s.Parked}},
			columns: []column[sum]{
				{title: "STATE", text: func(s sum) string { return s.state }},
				{title: "PACKS", text: func(s sum) string { return strconv.Itoa(s.Packs) }},
				{title: "MESSAGES", text: func(s sum) string { return strconv.Itoa(s.Messages) }},
				{title: "OLDEST", text: func(s sum) string {
					if s.Packs == 0 {
						return ""
					}
					return rough(s.Oldest.Std())
				}},
			},
		})
		if err != nil || len(s.Packs) == 0 {
			return err
		}
		fmt.Fprintln(a.out)
	}
	return write(a, out, list[client.Pack]{
		items: s.Packs,
		whole: s,
		id:    func(p client.Pack) string { return p.ID.String() },
		columns: []column[client.Pack]{
			{title: "PACK", text: func(p client.Pack) string { return p.ID.String() }},
			{title: "STATE", text: func(p client.Pack) string { return p.State }},
			{title: "MESSAGES", text: func(p client.Pack) string { return strconv.Itoa(p.Messages) }},
			{title: "AGE", text: func(p client.Pack) string { return rough(p.Age.Std()) }},
			{title: "ATTEMPTS", text: func(p client.Pack) string { return strconv.Itoa(p.Attempts) }},
			{title: "AGAIN", wide: true, text: func(p client.Pack) string { return a.clock(p.Until) }},
			{title: "OWNER", wide: true, text: func(p client.Pack) string { return p.Owner }},
			{title: "ERROR", text: func(p client.Pack) string { return p.LastError }},
		},
	})
}

func newOutboxReplay(a *app) *cobra.Command {
	var o struct {
		ids          []string
		all          bool
		since, until string
	}
	var out format
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Publish failed and parked dispatches again",
		Long: `Makes failed and parked packs due at once: a relay publishes them within moments. Conditions
that are given must all hold. Dispatches whose leases are over are dropped on the way; their
runs are dispatched anew, so nothing is lost and nothing is published in vain.`,
		Example: `  daybook outbox replay --all
  daybook outbox replay --since 1h`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := client.Packs{All: o.all}
			for _, id := range o.ids {
				parsed, err := uuid.Parse(id)
				if err != nil {
					return usage("--id %q: want the id of a pack, from 'daybook outbox status'", plain(id))
				}
				s.IDs = append(s.IDs, parsed)
			}
			var err error
			if s.Since, err = a.optionalWhen("since", o.since, -1); err != nil {
				return err
			}
			if s.Until, err = a.optionalWhen("until", o.until, -1); err != nil {
				return err
			}
			if !s.All && s.IDs == nil && s.Since.IsZero() && s.Until.IsZero() {
				return usage("which packs? give --id, --since, --until or --all")
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				n, err := c.ReplayOutbox(ctx, s)
				switch {
				case err != nil:
					return err
				case !out.people():
					return a.writeJSON(out, map[string]int{"replayed": n})
				}
				_, err = fmt.Fprintf(a.out, "%s due again\n", count(n, "pack"))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.ids, "id", nil, "this pack (repeatable)")
	f.BoolVar(&o.all, "all", false, "every failed and parked pack")
	f.StringVar(&o.since, "since", "", "made at or after: an instant, a local time, or 1h ago")
	f.StringVar(&o.until, "until", "", "made before")
	outputFlag(cmd, &out, asTable)
	return cmd
}
