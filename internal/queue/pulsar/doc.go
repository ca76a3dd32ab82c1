// SPDX-License-Identifier: Apache-2.0

// Package pulsar is the queue on Apache Pulsar.
//
// A direction is a topic, persistent://<tenant>/<namespace>/<topic>, partitioned or
// not; both may be the same topic. Dead letters go to the topic <out>-dlq in the
// namespace <namespace>-dlqs.
//
// A record's key is the message's ordering key. The message key belongs to the
// field: records of a server carry its constant, others none. A record without an
// ordering key (a server in the field makes such) gets its key from its account and
// cluster when it is read.
//
// On a topic that both directions share, a tail gives what no server has produced,
// and a consumer gives what a server has produced and acknowledges the rest unseen.
// On topics of their own a consumer gives everything; a tail still passes over what
// a server has produced.
//
// # What is kept, and for how long
//
// Namespaces that [Open] makes keep what is acknowledged or has no subscription for
// an hour (dead letters: 30 days), at most 512 MiB per topic. In a namespace that
// was there before, its own policies hold. Without any retention a broker may remove
// records of In that a tail has not read yet once it begins a new ledger: after a
// restart, or when the old one is full.
//
// # What survives what
//
// A record that Publish confirmed is stored on as many bookies as the namespace
// demands. Whether it survives a power cut of all of them is decided by the bookies'
// journalSyncData (true by default).
//
// # Order and repetition
//
// Within a key, records come in the order of Publish. Small ones are sent in
// batches, but for those of Out: there each goes alone, since the library leaves the
// key out of a batch's own description, by which the broker shares keys among members.
// A large one is sent by a second producer, in chunks, when all before it are
// confirmed. After a failure Publish sends the first record
// that was not confirmed, and all behind it, again. A consumer can then see a later
// record before an earlier one, but always sees the later one again after it.
//
// Consumers share one Key_Shared subscription, so each key is with one of them; what
// a member that ends or dies has not acknowledged goes to the others, in order. When
// a connection is lost, or the broker does not answer an acknowledgement for 3 s, delivery
// begins anew behind what is acknowledged, and a batch from before cannot be
// acknowledged any more. Who joins in the moment in which the last member leaves may be
// handed later records of a key first, and then all behind what is acknowledged: a
// race in the broker (4.0.7; about one in fifty). If the broker does not remember what
// was acknowledged within a batch of the producer (acknowledgmentAtBatchIndexLevelEnabled),
// the whole batch comes again.
package pulsar
