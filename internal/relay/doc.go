// SPDX-License-Identifier: Apache-2.0

// Package relay is the server: it accepts clients, carries what they say to the
// queue, and carries what the backend says to the client that is connected
// here. Bodies pass through it unread.
//
//	up    Link.Receive → stamp (account, cluster, source, seq) → Queue.Publish(Out)    upward.go
//	down  Queue.Tail(In) → the newest connection of that cluster → Link.Send           downward.go
//	keep  what that connection cannot take, until it can or the next one comes          replay.go
//	ask   after a connect, or when something was lost: a reconciliation → Publish(Out)  reconcile.go
//	tell  on a schedule: who is connected, and reconciliations of all            schedule.go, keepalive.go
//	drop  alerts of accounts that may not send them, objects that are too large  gate.go, features.go
//
// The two directions of a connection share nothing, so a client that does not
// read cannot stop what it sends, and the other way round.
package relay
