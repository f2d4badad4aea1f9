package natsjs

import "github.com/daybookhq/daybook/outbox"

var _ outbox.PartialError = (*PartialError)(nil)
