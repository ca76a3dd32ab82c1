// SPDX-License-Identifier: Apache-2.0

// Package ingest is the event ingester: it takes records of clusters from the
// queue, writes what they mean into the store, and asks for what it lacks.
//
// A batch goes through it in five steps (ingester.go):
//
//	take      what has arrived, without linger       Consumer.Next
//	read      records into items, faults set aside   item.go
//	fold      items of one object, in order          fold.go, pure
//	commit    one transaction                        Store.Update
//	answer    GetObject and lists on In, confirmed; then Ack
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
