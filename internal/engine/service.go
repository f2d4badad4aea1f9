package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Service answers the workers' calls, whatever transport they came by. Starts
// and outcomes are gathered into transactions of their own, so that neither
// waits behind the other and no heartbeat behind either.
type Service struct {
	store    *eventstore.Store
	terms    domain.ExecutionTerms
	starts   *batcher[eventstore.Command, eventstore.Answer]
	outcomes *batcher[eventstore.Command, eventstore.Answer]
	beats    *batcher[eventstore.Beat, eventstore.Beaten]
	requests *batcher[eventstore.RunRequest, eventstore.Requested]
	aside    chan struct{}      // a place for each connection that calls outside of batches may have
	freed    func()             // slots became free
	due      func(queue string) // runs of the queue came due
	declared func()             // a worker said what it does
	lengths  *lengths           // of the runs whose ends were recorded here
	tally    *tally             // of the claims that were closed here
	log      *slog.Logger
	metrics  *metrics
}

// OpsConns is how many connections the store needs for workers' calls: one for
// everything that is on its way all the time, so that heartbeats and outcomes
// wait for none. The last is the reaper's, and is lent to the few that cancel or
// give back a run now and then.
const OpsConns = 2*batchWorkers + beatWorkers + asideConns + 1

const (
	beatWorkers = 1
	// asideConns is for polls and presence: they are as many as there are workers.
	asideConns = 2
)

func newService(s *eventstore.Store, terms domain.ExecutionTerms, m *metrics, log *slog.Logger) *Service {
	v := &Service{store: s, terms: terms, aside: make(chan struct{}, asideConns), lengths: newLengths(), tally: &tally{}, log: log, metrics: m,
		freed: func() {}, due: func(string) {}, declared: func() {}}
	v.starts = newBatcher("start", m, s.Execute)
	v.outcomes = newBatcher("outcome", m, s.Execute)
	v.beats = newBatcher("heartbeat", m, func(ctx context.Context, beats []eventstore.Beat) ([]eventstore.Beaten, error) {
		return s.Heartbeat(ctx, beats, terms)
	})
	v.requests = newBatcher("request", m, s.Request)
	return v
}

// Run works the batches until ctx ends.
func (v *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range batchWorkers {
		g.Go(func() error { return v.starts.Run(ctx) })
		g.Go(func() error { return v.outcomes.Run(ctx) })
		g.Go(func() error { return v.requests.Run(ctx) })
	}
	for range beatWorkers {
		g.Go(func() error { return v.beats.Run(ctx) })
	}
	err := g.Wait()
	v.starts.stop()
	v.outcomes.stop()
	v.requests.stop()
	v.beats.stop()
	return err
}

// Start lets workers begin to execute.
func (v *Service) Start(ctx context.Context, actor string, q protocol.StartRequest) ([]protocol.StartResult, error) {
	commands := make([]eventstore.Command, len(q.Items))
	for i, it := range q.Items {
		commands[i] = eventstore.Command{RunID: it.RunID, Meta: eventstore.Meta{Actor: actor},
			Do: domain.StartRun{ClaimID: it.ClaimID, Token: it.Token, Worker: q.WorkerID, ExecutionTerms: v.terms}}
	}
	got, err := v.starts.Do(ctx, commands)
	if err != nil {
		return nil, err
	}
	out := make([]protocol.StartResult, len(got))
	var n recorded
	for i := range got {
		a := &got[i]
		if code, fault := v.refusal(protocol.OpStart, a); a.Err != nil {
			out[i] = protocol.StartResult{Status: refusedStatus(fault), Code: code, Error: fault, RunID: q.Items[i].RunID}
			continue
		}
		n.add(a)
		out[i] = started(a)
	}
	n.note(v.metrics, protocol.OpStart)
	return out, nil
}

func started(a *eventstore.Answer) protocol.StartResult {
	r := protocol.StartResult{
		Status: protocol.StatusStarted, RunID: a.Run.ID, Job: a.Spec.Name, JobID: a.Run.JobID, Kind: a.Run.Kind, Origin: string(a.Run.Origin),
		Args: a.Run.Args, Target: a.Spec.Target, Attempt: a.Run.Attempt, MaxAttempts: a.Spec.Retry.MaxAttempts,
		ScheduledAt: protocol.At(a.Run.ScheduledAt), Timeout: protocol.Duration(a.Spec.Timeout),
		LeaseRemaining: protocol.Duration(a.Run.LeaseUntil.Sub(a.Now)),
	}
	if len(r.Args) == 0 {
		r.Args = a.Spec.Args
	}
	r.Args, r.Target = compact(r.Args), compact(r.Target)
	if a.Run.Deadline != nil {
		r.Deadline = protocol.Duration(max(a.Run.Deadline.Sub(a.Now), 1))
	}
	return r
}

// compact takes the white space out that a person, or the database, put into
// JSON: workers see the same text wherever it was kept.
func compact(raw json.RawMessage) json.RawMessage {
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}

// Complete records successes.
func (v *Service) Complete(ctx context.Context, actor string, q protocol.CompleteRequest) ([]protocol.Result, error) {
	commands := make([]eventstore.Command, len(q.Items))
	ran := make([]time.Duration, len(q.Items))
	for i, it := range q.Items {
		ran[i] = it.Ran.Std()
		commands[i] = eventstore.Command{RunID: it.RunID, Do: domain.SucceedRun{ClaimID: it.ClaimID}, Meta: eventstore.Meta{Actor: actor}}
		if commands[i].Output = output(it.Output); len(it.Result) > 0 {
			if commands[i].Output == nil {
				commands[i].Output = &eventstore.Output{}
			}
			commands[i].Output.Result = it.Result
		}
	}
	return v.close(ctx, protocol.OpComplete, commands, ran)
}

// Snooze puts started runs off.
func (v *Service) Snooze(ctx context.Context, actor string, q protocol.SnoozeRequest) ([]protocol.Result, error) {
	commands := make([]eventstore.Command, len(q.Items))
	for i, it := range q.Items {
		commands[i] = eventstore.Command{RunID: it.RunID, Do: domain.SnoozeRun{ClaimID: it.ClaimID, Delay: it.Delay.Std()}, Meta: eventstore.Meta{Actor: actor}}
	}
	return v.close(ctx, protocol.OpSnooze, commands, nil)
}

// Release takes runs back.
func (v *Service) Release(ctx context.Context, actor string, q protocol.ReleaseRequest) ([]protocol.Result, error) {
	commands := make([]eventstore.Command, len(q.Items))
	for i, it := range q.Items {
		commands[i] = eventstore.Command{RunID: it.RunID, Do: domain.ReleaseRun{ClaimID: it.ClaimID, Token: it.Token, Reason: cmp.Or(it.Reason, "released by its worker")}, Meta: eventstore.Meta{Actor: actor}}
	}
	return v.close(ctx, protocol.OpRelease, commands, nil)
}

func (v *Service) close(ctx context.Context, op string, commands []eventstore.Command, ran []time.Duration) ([]protocol.Result, error) {
	got, err := v.outcomes.Do(ctx, commands)
	if err != nil {
		return nil, err
	}
	out := make([]protocol.Result, len(got))
	for i := range got {
		a := &got[i]
		switch code, fault := v.refusal(op, a); {
		case a.Err != nil:
			out[i] = protocol.Result{Status: refusedStatus(fault), Code: code, Error: fault}
		case isUnstorable(a.Event):
			out[i] = protocol.Result{Status: protocol.StatusFailed}
		case a.Repeat && op == protocol.OpComplete:
			out[i] = protocol.Result{Status: protocol.StatusUnchanged}
		default:
			out[i] = protocol.Result{Status: protocol.StatusRecorded}
		}
	}
	v.closed(op, got, ran)
	return out, nil
}

// Fail records failed attempts.
func (v *Service) Fail(ctx context.Context, actor string, q protocol.FailRequest) ([]protocol.FailResult, error) {
	commands := make([]eventstore.Command, len(q.Items))
	ran := make([]time.Duration, len(q.Items))
	for i, it := range q.Items {
		ran[i] = it.Ran.Std()
		commands[i] = eventstore.Command{RunID: it.RunID, Output: output(it.Output), Meta: eventstore.Meta{Actor: actor},
			Do: domain.FailRun{ClaimID: it.ClaimID, Error: domain.RunError(it.Error), Retryable: it.Retryable, RetryAfter: it.RetryAfter.Std()}}
	}
	got, err := v.outcomes.Do(ctx, commands)
	if err != nil {
		return nil, err
	}
	out := make([]protocol.FailResult, len(got))
	for i := range got {
		a := &got[i]
		if code, fault := v.refusal(protocol.OpFail, a); a.Err != nil {
			out[i] = protocol.FailResult{Status: refusedStatus(fault), Code: code, Error: fault}
			continue
		}
		switch e := a.Event.(type) {
		case domain.RunRetryScheduled:
			out[i] = protocol.FailResult{Next: protocol.NextRetry, At: protocol.At(e.ReadyAt)}
		case domain.RunCancelled:
			out[i] = protocol.FailResult{Next: protocol.NextCancelled}
		default:
			out[i] = protocol.FailResult{Next: protocol.NextFailed}
		}
	}
	v.closed(protocol.OpFail, got, ran)
	return out, nil
}

// Heartbeat renews leases.
func (v *Service) Heartbeat(ctx context.Context, q protocol.HeartbeatRequest) ([]protocol.HeartbeatResult, error) {
	beats := make([]eventstore.Beat, len(q.Items))
	for i, it := range q.Items {
		beats[i] = eventstore.Beat{RunID: it.RunID, ClaimID: it.ClaimID, Message: it.Message}
		if it.Progress != nil {
			p := float32(*it.Progress)
			beats[i].Progress = &p
		}
	}
	got, err := v.beats.Do(ctx, beats)
	if err != nil {
		return nil, err
	}
	out := make([]protocol.HeartbeatResult, len(got))
	for i, b := range got {
		if b.Code != "" {
			v.metrics.refusals.WithLabelValues(protocol.OpHeartbeat, string(b.Code)).Inc()
			out[i] = protocol.HeartbeatResult{Status: protocol.StatusRefused, Code: protocol.RefusalCode(b.Code)}
			continue
		}
		out[i] = protocol.HeartbeatResult{LeaseRemaining: protocol.Duration(b.Remaining), Cancel: b.Cancel}
	}
	return out, nil
}

// closed counts what was recorded, and wakes whoever waits for slots or runs. ran
// is how long the handlers took, as far as the workers say: between a run's two
// transactions lies more than that, the waits of a full worker and for a batch.
func (v *Service) closed(op string, got []eventstore.Answer, ran []time.Duration) {
	lanes := map[eventstore.WorkerLane]*took{}
	var last eventstore.WorkerLane
	var t *took // of the last lane
	var n recorded
	for i := range got {
		a := &got[i]
		if a.Err != nil {
			continue
		}
		n.add(a)
		if a.Run.State == domain.Pending {
			v.due(a.Run.Queue)
		}
		if a.Repeat {
			continue
		}
		lane := eventstore.WorkerLane{Queue: a.Run.Queue, Kind: a.Run.Kind}
		if t == nil || lane != last {
			last = lane
			if t = lanes[lane]; t == nil {
				t = &took{at: a.Now, seconds: v.metrics.runSeconds.WithLabelValues(lane.Queue)}
				lanes[lane] = t
			}
		}
		t.closed++
		if a.Took > 0 {
			t.seconds.Observe(a.Took.Seconds())
			if ran != nil && ran[i] > 0 {
				t.sum += min(ran[i], a.Took)
			} else {
				t.sum += a.Took
			}
			t.runs++
		}
	}
	n.note(v.metrics, op)
	for lane, t := range lanes {
		v.tally.note(ended{lane, t.at, t.closed})
		if t.runs > 0 {
			v.lengths.note(lane, t.sum/time.Duration(t.runs), time.Now())
		}
	}
	v.freed()
}

// took adds up what was closed of a lane.
type took struct {
	at     time.Time // the transaction's
	closed int
	runs   int // of those, executed
	sum    time.Duration

	seconds prometheus.Observer // each of theirs
}

// recorded counts what was recorded of a request, and what was again.
type recorded struct{ first, repeated int }

func (r *recorded) add(a *eventstore.Answer) {
	if a.Repeat {
		r.repeated++
	} else {
		r.first++
	}
}

func (r recorded) note(m *metrics, op string) {
	if r.first > 0 {
		m.outcomes.WithLabelValues(op, "recorded").Add(float64(r.first))
	}
	if r.repeated > 0 {
		m.outcomes.WithLabelValues(op, "repeated").Add(float64(r.repeated))
	}
}

// refusal translates an answer's error: a refusal is decided, a fault is not.
func (v *Service) refusal(op string, a *eventstore.Answer) (protocol.RefusalCode, *protocol.Error) {
	var r *domain.Refusal
	switch {
	case a.Err == nil:
		return "", nil
	case errors.As(a.Err, &r):
		v.metrics.refusals.WithLabelValues(op, string(r.Code)).Inc()
		if r.UnknownClaim || r.Code == domain.CodeUnknownRun {
			v.metrics.unknown.Inc()
			v.log.Warn("claim is unknown to the database and refused", "run_id", r.Run, "op", op)
		}
		return protocol.RefusalCode(r.Code), nil
	}
	v.log.Error("operation cannot be stored", "op", op, "error", a.Err)
	return "", &protocol.Error{Code: protocol.CodeInternal, Message: a.Err.Error()}
}

func refusedStatus(fault *protocol.Error) protocol.Status {
	if fault != nil {
		return ""
	}
	return protocol.StatusRefused
}

func isUnstorable(e domain.RunEvent) bool {
	f, ok := e.(domain.RunFailed)
	return ok && f.Error.Type == eventstore.ErrorUnstorable
}

func output(o *protocol.Output) *eventstore.Output {
	if o == nil {
		return nil
	}
	head, tail, err := o.Bytes()
	if err != nil {
		head, tail = []byte("output could not be read: "+err.Error()), nil
	}
	return &eventstore.Output{Head: head, Tail: tail, TotalBytes: int64(len(head)) + int64(len(tail)) + o.Truncated}
}
