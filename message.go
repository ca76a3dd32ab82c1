// SPDX-License-Identifier: Apache-2.0

package synchronizer

import "time"

// Event says what a [Message] is. Link and queue spell the same event in their
// own way (integers and texts); package wire and package queue translate.
type Event uint8

// The events. The first block travels on link and queue, the second only on a
// link, the third only on a queue.
const (
	EventUnknown Event = iota

	EventVerify         // object exists with this checksum (NewChecksum, VerifyObject)
	EventPut            // the whole object (PutObject)
	EventPatch          // a merge patch against what was sent last (PatchObject)
	EventDelete         // object is gone (ObjectDeleted, DeleteObject)
	EventGet            // send me the object (GetObject)
	EventReconciliation // all known objects of kinds (ReconciliationRequest; a Batch on link v1)

	EventPing
	EventBatch // items that stand for themselves

	EventServerConnected     // a client has connected
	EventConnectedClients    // who is connected
	EventReconciliationBatch // several reconciliation requests at once
	EventIngesterPresent     // an ingester of this project works behind the queue
)

var eventNames = [...]string{
	EventUnknown: "Unknown", EventVerify: "VerifyObject", EventPut: "PutObject", EventPatch: "PatchObject",
	EventDelete: "DeleteObject", EventGet: "GetObject", EventReconciliation: "ReconciliationRequest",
	EventPing: "Ping", EventBatch: "Batch", EventServerConnected: "ServerConnected",
	EventConnectedClients: "ConnectedClients", EventReconciliationBatch: "ReconciliationRequestBatch",
	EventIngesterPresent: "IngesterPresent",
}

// String is the event's name in the queue's vocabulary.
func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return eventNames[EventUnknown]
}

// ParseEvent is the reverse of String; EventUnknown for any other text.
func ParseEvent(s string) Event {
	for e, name := range eventNames {
		if name == s {
			return Event(e)
		}
	}
	return EventUnknown
}

// AboutObject reports whether the event speaks of exactly one object.
func (e Event) AboutObject() bool { return e >= EventVerify && e <= EventGet }

// MaxDepth is the greatest Depth that is still handled; deeper messages are
// dropped, so that no pair of peers can answer each other for ever.
const MaxDepth = 8

// Message is one statement or request, on a link or on a queue. Which fields
// count depends on Event; the others are zero.
type Message struct {
	Event Event
	// Depth is 1 in a first message; a relay adds one on each hop.
	Depth int
	// MsgID is a UUID; an answer keeps that of its request.
	MsgID string

	// What it is about (AboutObject).
	Kind            Kind
	Namespace, Name string
	// ResourceVersion is the frame's number: 0 in single messages, the object's
	// (0 if its text does not fit) in items of a batch.
	ResourceVersion int64
	// Checksum is checksum v1 of the object (Verify, Put) or of the result
	// (Patch); 64 lower-case hex digits, or empty: the receiver computes it.
	Checksum string
	// Body is the object (Put), the merge patch (Patch) or the base object (Get):
	// exact bytes, owned by whoever holds the message, never modified.
	Body []byte

	// BatchType is "reconciliation" or empty; Items are its parts (EventBatch).
	BatchType string
	Items     []Message

	// Known lists objects per kind (EventReconciliation). Nil: the server asks
	// the ingester for it (ServerInitiated).
	Known           map[Kind][]KnownObject
	ServerInitiated bool
	// Requests are the parts of an EventReconciliationBatch.
	Requests []Message
	// Clients is who is connected (EventConnectedClients).
	Clients *ConnectedClients

	// TraceParent is the W3C traceparent of the span that the message comes from, so
	// that a trace spans link and queue; empty: it is in no trace. Of a batch it
	// stands in the batch, not in its items.
	TraceParent string

	// Stamped by the relay from the authenticated connection, never taken from
	// a payload.
	ClusterID
	Stamp
}

// Key names the object that the message is about.
func (m *Message) Key() ObjectKey {
	return ObjectKey{ClusterID: m.ClusterID, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
}

// Size is the number of bytes that the message holds in memory, near enough for
// a budget.
func (m *Message) Size() int {
	n := 256 + len(m.Body) + len(m.Namespace) + len(m.Name) + len(m.Checksum)
	for i := range m.Items {
		n += m.Items[i].Size()
	}
	for _, known := range m.Known {
		for i := range known {
			n += 128 + len(known[i].Name) + len(known[i].Namespace)
		}
	}
	return n
}

// KnownObject is an object as the backend knows it, in a reconciliation.
type KnownObject struct {
	Namespace, Name string
	ResourceVersion int64
	Checksum        string
}

// ConnectedClients is who is connected to a server.
type ConnectedClients struct {
	ServerName string
	Clients    []ConnectedClient
	KeepAlive  time.Time
}

// ConnectedClient is one connection of a server.
type ConnectedClient struct {
	Hello
	ConnectionID   string
	ConnectionTime time.Time
}
