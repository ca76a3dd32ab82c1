// SPDX-License-Identifier: Apache-2.0

// Package agent is the client: it reads a cluster and tells the backend over a
// link what is there and what changes.
//
// Kubernetes is the log. Every object can be read again from its API server, so
// the agent keeps no objects: per object it remembers what it last said (uid,
// resourceVersion, digest), and nothing else. What could not be said, because
// the link was down, only makes its key dirty; later the object is read again
// and said then. So a slow or absent backend costs no memory.
//
// One goroutine owns a kind (stream). What it decides stands in a state machine
// without I/O (machine): events go in, effects come out. Around it:
//
//	feeder   runs List and Watch and hands over what they give, transformed
//	reads    runs Get, for dirty keys and for objects that the backend asks for
//	session  one link; its reader hands requests to the stream of their kind
//	pool     bodies that were offered by a checksum and may be asked for soon,
//	         and those that wait for the end of their window
//	v1       which message says a state: a checksum, a patch, the whole object
//
// The first change of an object leaves at once and opens a window; what follows
// within it is merged, and its end says the last state (coalesce). A window is
// 1 s long; it grows to 5 s while the link is busy or the object goes on
// changing, and to 30 s for changes that only reorder arrays. Deletions do not
// wait. So an object causes a bounded number of messages, whatever it does, and
// its last state always arrives.
//
// Of a hollow kind lists and watches only tell that an object has changed; what
// is said comes from GETs. With a selector a deleted object may still exist, so a
// GET decides (hollow).
//
// What the backend says comes the other way (downward). A reconciliation lists all
// that it has of a kind; the machine compares, once the kind was read completely,
// and says what is gone, what is another state and what is missing there
// (reconcile). What is listed and absent is looked for once more before it counts
// as deleted: what the rules leave out is not known, and exists all the same.
// Statements about objects are written into the cluster by a few workers, in order
// for each object, and not twice (writer).
//
// A kind goes through list, watch, and, when the watch can no longer be resumed,
// list again; a list marks what it sees and then sweeps what it did not see.
// Absence counts only after a list that is complete.
package agent
