// Package protocol holds the names and the wire types that engines and workers share.
package protocol
