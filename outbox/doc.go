// Package outbox brings every status change to every subscriber: none lost, none
// twice, in one order.
//
// A purchase's transaction inserts a row into the table outbox and nothing more. The
// [Relay] of any process moves such rows into the event log and numbers them there, one
// after the other without a gap; so whoever reads "id > last" has read everything. The
// [Hub] of each process reads the log that way, once for all of its subscribers, woken
// by its own process's relay, by the [Listener] that hears the other processes', and by
// a slow poll behind both. [Log] reads ranges of the past; [Retention] keeps the log's
// days.
//
// It knows nothing of purchases beyond the columns of an event, and nothing of HTTP. A
// notification is only ever a hint here: losing each one costs latency, never an event.
//
// purchase, jobs, api and cmd import it; it imports sql only.
package outbox
