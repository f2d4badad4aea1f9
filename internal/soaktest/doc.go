// Package soaktest runs a deployment under steady load and compares what its
// processes hold at the end with what they held in the beginning: memory,
// goroutines, file descriptors, connections. `make soak` does it.
package soaktest
