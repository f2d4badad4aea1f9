package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/daybookhq/daybook/projections"
)

// StatsScope says of what statistics are asked for.
type StatsScope struct {
	Job   string    `query:"job" maxLength:"64" doc:"Of this job; not with queue or kind"`
	Queue string    `query:"queue" maxLength:"64" doc:"Of this queue"`
	Kind  string    `query:"kind" maxLength:"64" doc:"Of this kind"`
	From  time.Time `query:"from" doc:"From this instant on; absent: an hour before to"`
	To    time.Time `query:"to" doc:"Before this instant; absent: now"`
}

func (s StatsScope) filter() projections.StatsFilter {
	return projections.StatsFilter{Job: s.Job, Queue: s.Queue, Kind: s.Kind, From: s.From, To: s.To}
}

type depthList struct {
	Queues []projections.Depth `json:"queues"`
}

type (
	depthsOutput    struct{ Body depthList }
	ratesOutput     struct{ Body projections.Rates }
	durationsOutput struct{ Body projections.Durations }
)

func (a *api) statsRoutes() {
	read := []Scope{ScopeRead}
	const late = " Answered from read models: up to a second behind."
	handle(a, operation{id: "list-queue-depths", method: http.MethodGet, path: "/v1/stats/queues", tag: tagOperations, scopes: read,
		summary: "Show how many runs of each lane are in each state", description: "At the same cost however many wait; /v1/queues counts what could be claimed at this moment." + late}, a.depths)
	handle(a, operation{id: "get-rates", method: http.MethodGet, path: "/v1/stats/rates", tag: tagOperations, scopes: read,
		summary: "Show what happened minute by minute", description: "Events are counted in the minute that they are dated with. Minutes are kept for 14 days, by job for two; " +
			"what is older, or whose events the log has let go of, is left out, and from says so." + late}, a.rates)
	handle(a, operation{id: "get-durations", method: http.MethodGet, path: "/v1/stats/durations", tag: tagOperations, scopes: read,
		summary: "Show how long attempts waited and ran", description: "Counted in ranges that end at 1 ms, 2 ms, 4 ms and so on, so that a percentile is an estimate: it lies in the range that is given. " +
			"Hours are kept for 90 days, by job days in UTC for 400." + late}, a.durations)
}

func (a *api) depths(ctx context.Context, _ *struct{}) (*depthsOutput, error) {
	found, err := a.read.Depths(ctx)
	return &depthsOutput{depthList{found}}, err
}

func (a *api) rates(ctx context.Context, in *struct {
	StatsScope
	Step string `query:"step" maxLength:"32" doc:"Length of a step, whole minutes such as 5m; absent: 1m. At most 1,500 steps"`
}) (*ratesOutput, error) {
	f := in.filter()
	if in.Step != "" {
		var err error
		if f.Step, err = time.ParseDuration(in.Step); err != nil || f.Step <= 0 {
			return nil, invalid(Violation{Location: "query.step", Value: shown(in.Step), Message: "is no length of time", Hint: "for example 5m"})
		}
	}
	found, err := a.read.Rates(ctx, f)
	return &ratesOutput{found}, err
}

func (a *api) durations(ctx context.Context, in *StatsScope) (*durationsOutput, error) {
	found, err := a.read.Durations(ctx, in.filter())
	return &durationsOutput{found}, err
}
