// SPDX-License-Identifier: Apache-2.0

// Package kafka is the queue on Apache Kafka. Each direction is one topic; a
// record's key is the key of the Kafka record, and its properties are headers,
// byte for byte. Empty values are left out, as the system in the field does.
//
// # Order
//
// The partition is Kafka's default hash (murmur2) of the key, so all records of a
// key are in one partition, together with what other producers write there. That
// ends when partitions are added to a topic: then a key may move, and its order
// holds before and after that moment only. Records without a key go anywhere.
//
// The producer is idempotent. When the broker refuses a record for a reason that
// passes, Publish sends it again together with all that follow it in the call: a
// consumer can then see a later record before an earlier one, but always sees the
// later one again after it. What a call had handed to the producer before its
// context ended may still be written, in the same order, before anything that is
// published after it.
//
// # What survives what
//
// Publish returns when all replicas that are in sync have the record (acks=all).
// How many those are is the topic's min.insync.replicas: with 3 replicas and 2 in
// sync, one machine may be lost. A broker confirms before it has synced its disk,
// so a power cut of all replicas at once can lose what was confirmed last. How long
// records are kept is the topic's retention; acknowledging removes nothing.
//
// # Readers
//
// A tail reads by direct assignment, without a group: nothing of it is on the
// broker. It begins at the end of every partition as of when it was made; a
// partition that appears later is read from its beginning, within a minute.
//
// Consumers are a group with cooperative-sticky assignment. Offsets are committed
// by Ack only, and stand for everything before them. When partitions move to
// another member, the member that gives them up waits a few seconds for what it
// has handed out to be acknowledged. Ack leaves partitions out that have moved
// nevertheless: it moves nobody else's offsets, it returns nil, and their
// unacknowledged records come again at the new member. A member that was killed is
// replaced after its session has ended (10 s).
//
// # Limits
//
// A record above MaxMessageBytes is refused with ErrTooLarge, alone. At most 8 MiB
// (or one record above that) wait for the broker's confirmation; then Publish waits.
// A reader holds at most 8 MiB as they came over the network, per broker, or one
// batch above that.
package kafka
