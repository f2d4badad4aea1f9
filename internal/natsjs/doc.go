// Package natsjs is Daybook's adapter to NATS JetStream: an embedded server, connections, the streams and
// consumers, a publisher and a subscriber behind watermill's ports, wake-ups and the watch for a lost stream.
//
// JetStream is a fast carrier that may lose everything; PostgreSQL decides. So nothing here retries for long or
// keeps state that matters: a failure is reported at once, with the message it concerns and whether sending the
// same message again can help.
//
// Importing this package links nats-server, which registers net/http/pprof and expvar handlers on
// http.DefaultServeMux. Serve HTTP from a mux of your own.
package natsjs
