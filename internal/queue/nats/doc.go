// SPDX-License-Identifier: Apache-2.0

// Package nats is the queue on NATS JetStream. [OpenEmbedded] runs the broker
// inside the process, on files below a directory and without an open port; [Open]
// reaches servers over TCP.
//
// Each direction is one stream, with one subject per key, so that the broker
// itself can tell clusters apart:
//
//	<prefix>.out.<p>.<token>        p = hash of the key mod partitions
//	<prefix>.in.<token>
//	<prefix>.dead-letter.<token>
//
// A token is the key, escaped so that any text is safe (token.go). Properties
// are message headers, escaped only where a header could not carry them
// (header.go).
//
// # What is kept, and for how long
//
//   - out keeps a record until every group has acknowledged it. When the stream
//     is full the broker refuses new records and Publish waits: the back-pressure
//     reaches the clients, and nothing is lost.
//   - in keeps 10 minutes, or as much as its size allows; the oldest goes first.
//     Nobody acknowledges there, so refusing new records would stop the backend. A
//     tail that fell behind so far logs how many records it has missed.
//   - dead-letter keeps 30 days, or as much as its size allows; oldest first.
//
// # What survives what
//
// A record that Publish confirmed was written to the file, so it survives the end
// of the process, a kill -9 too. It survives a power cut once the file was
// synced: every SyncInterval, or before each confirmation with SyncAlways (about
// ten times slower).
//
// # Order and repetition
//
// Within a key, records come in the order of Publish. When a record was not
// confirmed (stream full, no answer), Publish sends it again together with all
// that follow it in the call. A consumer can then see a later record before an
// earlier one, but always sees the later one again after it.
//
// A consumer sees a record again if it was not acknowledged: at once after the
// queue was opened again, and after AckWait while it goes on calling Next. The
// repeated records come in the order of the stream. A batch can be acknowledged as
// long as its consumer is open. What was lost in between is left out: those records
// come again.
//
// # Over TCP
//
// The stream out has 16 partitions, and each group one durable consumer for each,
// <group>-<p>, which the broker pins to one client at a time (server 2.11 or
// newer). The members of a group tell each other on <prefix>.members.<group> that
// they live, and share the partitions. One that gives up a partition keeps it until
// what it has returned is acknowledged, 15 s at most. After the death of a member
// its partitions go to others within about 5 s.
//
// A member acknowledges only what it got without a gap in the broker's numbers. When
// in doubt (connection lost, another owner) it has the broker begin anew behind the
// last acknowledgement.
//
// The broker confirms before its file is synced, unless it runs with "sync: always":
// a confirmed record survives a kill of the server, a power cut only on several
// servers (Replicas). While a connection is away, Publish waits and sends again in
// order, and readers go on by themselves.
package nats
