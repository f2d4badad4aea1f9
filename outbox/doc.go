// Package outbox carries claims to the broker without a dual write.
//
// A claim publishes nothing. In its transaction it writes one row, a pack, which
// holds all messages of that claim; either both are committed or neither. After
// the commit a relay publishes the pack and the row goes. Whatever dies in
// between leaves the row, and some relay finds it.
//
// # Who holds a pack
//
// A row names an owner and the database time until which nobody else may take
// it. A new pack belongs to its writer's process for two seconds, in which the
// relay there has it from memory. Afterwards it belongs to whoever leases it:
// relays take packs that are over with SKIP LOCKED, so replicas get disjoint
// ones. Owner and until together are the fence: a relay that finds them changed
// records nothing about failures. It may delete a pack it has published, since
// then no message of it needs anybody. No transaction is open while messages
// are on their way.
//
// # What is delivered
//
// At least once. A relay that dies between the broker's answer and the deletion
// makes the pack go out again, under the same message ids, which the broker
// drops as long as it remembers them. No order is promised between messages.
// A message that arrives twice or late does no harm: start is fenced by the
// claim.
//
// A dispatch is only worth sending while its lease lives. With less than a second
// left it is dropped, and the reaper releases the run. The rest of the lease
// becomes the message's time to live.
//
// # Failure
//
// Messages fail alone. Those that did stay in the pack for a later try; the
// others are gone from it. What can never be published is parked: the row stays
// in sight, its runs are released, and DAYBOOK_DEAD is told. When the broker takes nothing at all the
// relay holds back, from 100 ms up to 5 s, and tries with one pack at a time.
//
// # Time
//
// The database's clock decides. For each pack the relay remembers what it said
// and how much time passed here since, by the monotonic clock, counted from
// before the question was sent. A pack handed over in memory counts from when it
// was written instead, which is later than its transaction's time by as long as
// that transaction had been open; so much too late may a message be dropped or
// expire, and start refuses it then.
package outbox
