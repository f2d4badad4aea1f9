// Command peers drains the same runs through Daybook and through other job
// queues on PostgreSQL, in turn on one server, and prints what each did and the
// ratios. It is a module of its own so that none of them becomes a dependency of
// the product.
//
//	go run . --rounds 3 --daybook ../../bin/daybook
//
// Every contender gets a database of its own on the same server (fsync on),
// analyzed after it was loaded, and is set up the way its own benchmark or its
// documentation does for speed; settings and their sources stand beside the
// figures. The drained job does nothing.
//
// A round in which some peer stayed more than 15 % under its best one was
// disturbed: it is void, and another takes its place.
package main
