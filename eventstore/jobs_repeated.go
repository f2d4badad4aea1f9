package eventstore

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Index: events_job_pkey; the streams of the jobs that are commanded. It runs when
// their rows are locked: what whoever had them before has written is seen.
const selectJobEventsCausedBy = `SELECT ` + recordedColumns + ` FROM events e
 WHERE e.category = 'job' AND e.stream_id = ANY($1) AND e.causation = ANY($2) ORDER BY e.stream_id, e.version`

// repeated are requests whose commands were carried out before.
type repeated struct {
	causes map[uuid.UUID]bool
	events map[uuid.UUID][]domain.JobEvent // by job: what they brought about then
}

// of reports whether the command is part of one. It is that also if it had nothing
// to change at the time, when another command of the same request had.
func (r repeated) of(c JobCommand) bool {
	return c.Meta.Causation != nil && r.causes[*c.Meta.Causation]
}

// repeatedCommands looks for what the causes of the commands have brought about
// already. A cause is a request, which is carried out as a whole: if its answer was
// lost and it comes again, it must not undo what came after it.
func repeatedCommands(ctx context.Context, tx *txn, commands []JobCommand) (repeated, error) {
	r := repeated{causes: map[uuid.UUID]bool{}, events: map[uuid.UUID][]domain.JobEvent{}}
	var ids, causes []uuid.UUID
	for _, c := range commands {
		if c.Meta.Causation != nil {
			ids, causes = append(ids, domain.JobID(c.Name)), append(causes, *c.Meta.Causation)
		}
	}
	if len(ids) == 0 {
		return r, nil
	}
	return r, tx.query(ctx, selectJobEventsCausedBy, []any{ids, causes}, func(rows pgx.Rows) error {
		rec, err := scanRecorded(rows)
		if err != nil {
			return err
		}
		e, err := rec.Event()
		if err != nil {
			return err
		}
		r.causes[*rec.Causation] = true
		if e, ok := e.(domain.JobEvent); ok {
			r.events[rec.StreamID] = append(r.events[rec.StreamID], e)
		}
		return nil
	})
}
