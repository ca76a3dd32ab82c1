// SPDX-License-Identifier: Apache-2.0

// Package synchronizer holds the nouns of the system and the contracts between
// its parts, and nothing else: no I/O, no goroutines, no dependencies.
//
// The nouns: a [Kind] of object, an [ObjectKey] (which object of which
// [ClusterID]), a [Message] (what client and backend say to each other), an
// [Order] (which of two statements about an object is the newer one), a
// [Record] (a message on a queue) and a [Row] (what the backend knows of an
// object).
//
// The contracts, in the order in which a change travels upwards:
//
//	[Cluster]  one Kubernetes API server, read by the agent
//	[Link]     one live connection between a client and a server
//	[Queue]    the broker between server and ingester
//	[Store]    the database, written by the ingester; [Reader] reads it
//
// Every contract has one contract-test suite (clustertest, linktest,
// queuetest, storetest) that each implementation passes, the fakes too.
// Adapters live below internal/, never import each other, and are wired in
// internal/app.
package synchronizer
