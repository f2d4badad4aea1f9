// Package schedule compares domain/schedule with other cron libraries. It is a
// module of its own so that none of them becomes a dependency of the product.
//
//	go test -bench . -benchmem    # speed
//	go test -v -run Agreement     # which fires each of them finds
package schedule
