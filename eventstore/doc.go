// Package eventstore is the log on PostgreSQL and everything that is written in
// one transaction with it.
//
// Every change of a run or a job is an event, appended together with the row it
// concerns: a claim deletes the due row, writes the claim row, RunClaimed and the
// outbox row in one transaction; an outcome deletes the claim row and writes the
// terminal event. Whoever finds a row locked or gone knows that another replica
// is deciding or has decided. There is no leader.
//
// # Transactions
//
// All run at READ COMMITTED. A transaction's time is now(), the database's clock
// at its first statement: it decides what is due, what has lapsed and how events
// are dated. The clock of this process decides nothing here.
//
// A transaction is two round trips: BEGIN with the statement that locks rows,
// then all writes with COMMIT. Between them domain decides. Writes that must
// change what was decided on say how many rows that is; the database ends the
// transaction when the number differs, since the COMMIT is already on its way.
//
// Locks are taken in one order: jobs, limit keys, claims, due and waiting runs
// (each sorted by its key), then events. What starts at due runs takes everything
// before them with SKIP LOCKED.
//
// A COMMIT without an answer may have happened. Such a batch is never sent again
// as it was: the caller decides again from what the database then says. Every
// write can be repeated, because slots, keys and claim ids are unique and an
// outcome is answered from the stream.
//
// # Reading everything
//
// Sequence order is not commit order, so "position greater than the last" loses
// events. [Store.Read] takes the difference of two snapshots instead, ordered by
// position; see reader.go.
package eventstore
