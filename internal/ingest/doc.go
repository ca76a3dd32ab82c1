// SPDX-License-Identifier: Apache-2.0

// Package ingest is the event ingester: it takes records of clusters from the
// queue, writes what they mean into the store, and asks for what it lacks.
//
// A record goes through it in six steps:
//
//	take      what has arrived, without linger            ingester.go
//	read      records into items, faults set aside        item.go
//	share     clusters among lanes, one transaction each  lane.go
//	fold      items of one object, in order               fold.go, pure
//	commit    one transaction                             commit.go
//	answer    GetObject and lists on In, confirmed        final.go
//
// Then it is final. A batch of the broker is acknowledged when all of its records
// are, and all before it (ledger.go), so the lanes need not wait for one another.
// What is held in memory are the records that are not final: as many as the lanes
// can work on, and as much again.
//
// Two kinds of faults are kept apart. What is away (health.go) is waited for: no
// record is acknowledged, counted or set aside for it. What the database refuses is
// found by halving the batch; that record alone is tried again while the others go
// on (lane.go), and after MaxAttempts it becomes a dead letter, beside a row that
// says that the object exists and is not carried. What cannot even be read is a
// dead letter at once: no attempt would read it differently.
//
// A list names everything that is known of one kind (listing.go): on request of a
// server (reconcile.go), or when its time has come (agenda.go): for a cluster
// whose client does not report by itself (firstsync.go), and for objects whose
// patches do not fit. A list changes no row; what differs is said by the client,
// in ordinary records.
//
// Everything before the acknowledgement may happen twice, so everything is
// idempotent: a statement changes a row only if its Order is higher than the
// row's.
package ingest
