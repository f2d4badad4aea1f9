package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

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
	freed    func()             // slots became free
	due      func(queue string) // runs of the queue came due
	declared func()             // a worker said what it does
	lengths  *lengths           // of the runs whose ends were recorded here
	log      *slog.Logger
	metrics  *metrics
}

