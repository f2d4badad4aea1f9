// Command reads measures the read side on a database with a million runs: every
// list and detail of the HTTP API, over HTTP, at the first page and deep inside.
//
// The events are made up and copied into the log; the read models are not: the
// projections make them from the log, as they do everywhere.
//
//	make bench-reads                      a database of its own, thrown away
//	make bench-reads ARGS="-data DIR"     kept in DIR, for the next time
//	make bench-reads ARGS="-plans FILE"   write the plans of all statements, too, as in testdata/plans.txt
package main
