// Package projections is what reads the log: read models that can be thrown away
// and made again, and the queries over them.
//
// # Following
//
// A [Follower] reads the log in commit-safe order, folds a page of it in memory
// and writes each changed row once, together with its checkpoint, in one
// transaction. Any number of replicas run it. For each projection one works: it
// holds a lease on the projection's row in checkpoints, and every page begins
// with an update of that row which names its epoch. A holder that has been
// replaced changes nothing. While a page is written the row is locked, so nobody
// else writes to the projection's tables, and none of their rows needs a lock.
//
// Projections gate by version: an event that a row already has is ignored. So a
// page may come again, and while a follower is far behind it may read stream by
// stream instead of in the log's order (see source.go).
//
// An event that cannot be applied (one a newer binary wrote, one that no legal
// path has) parks its stream in projection_parked. The others go on; the stream
// is tried again every minute, from its beginning.
//
// # Reading
//
// A [Reader] answers lists from the projections, with how far behind they are,
// and everything about one run from the log itself: a run just made is found,
// and its detail is never older than the log.
//
// # Rebuilding
//
// [Rebuild] makes the tables anew beside the old ones and swaps them, while the
// follower and the readers go on. [Check] folds the log and compares. The tables
// belong to the role that migrates; what a rebuild does to the schema is in
// functions of the schema that the engine's role may call.
package projections
