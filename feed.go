// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Feed is the database as those read it who follow it. Every account has its own
// feed. The latest changes are kept (a million, unless the store was opened with
// another number).
type Feed interface {
	// Position is that of the newest change of the account, 0 if there was none. Who
	// reads it first, then lists, and then follows from it, misses nothing.
	Position(ctx context.Context, account string) (int64, error)

	// Changes reads at most limit changes (0 = 1000, more than 10,000 is refused)
	// with a position greater than after, in order. Transactions may end in any
	// order, but a change never appears behind one that was readable before it. Empty
	// if there are none yet; the caller asks again. Wraps ErrGone if changes behind
	// after are no longer kept: list again.
	Changes(ctx context.Context, account string, after int64, limit int) ([]Change, error)
}

// Change is one entry of a feed. The row may have changed again since.
type Change struct {
	Position int64
	Op       ChangeOp
	Key      ObjectKey // only the cluster if the whole of it was deleted
	Order    Order
	At       time.Time // UpdatedAt of the row
}

// ChangeOp is what happened to a row.
type ChangeOp uint8

// The operations of a feed.
const (
	ChangePut ChangeOp = iota + 1
	ChangeDelete
	ChangeClusterDeleted // with everything in it; its earlier changes are gone too
)

// Sets is the database as proofs of agreement read it.
type Sets interface {
	// Sets gives the set of each namespace of a kind that has objects, ordered by
	// namespace. Tombstones are in none. A kind or cluster that is not known has
	// none.
	Sets(ctx context.Context, of ClusterKind) ([]NamespaceSet, error)
}

// NamespaceSet is the set-hash of the objects of a kind in one namespace: the XOR
// of the hashes of (namespace, name, digest), and their number. That of a larger set
// is the XOR of its parts.
type NamespaceSet struct {
	Namespace string
	Hash      [16]byte
	Count     int64
}

// Events is the database as people read what has happened.
type Events interface {
	// Events lists events, the newest first.
	Events(ctx context.Context, q EventQuery) (EventPage, error)
}

// EventRow is something that happened in a cluster and does not become something
// else: it is appended and forgotten by age.
type EventRow struct {
	Key             ObjectKey // Namespace and Name are those of its metadata
	Ident           EventIdent
	UID             string
	ResourceVersion string
	At              time.Time // when it was stored; it expires by this
	Body            []byte    // exact bytes
}

// EventIdent makes an event unique in its kind.
type EventIdent [16]byte

// WatchedEvent is the identity of an event that was watched.
func WatchedEvent(uid, resourceVersion string) EventIdent {
	return identOf("watched", uid, resourceVersion)
}

// PostedEvent is the identity of an event that was posted and came by a stream.
func PostedEvent(stream string, seq uint64) EventIdent {
	return identOf("posted", stream, string(binary.BigEndian.AppendUint64(nil, seq)))
}

// MessageEvent is the identity of an event that was posted and came by link v1.
func MessageEvent(msgID string, body []byte) EventIdent {
	sum := sha256.Sum256(body)
	return identOf("message", msgID, string(sum[:]))
}

// identOf hashes texts, each with its length before it.
func identOf(texts ...string) EventIdent {
	var b []byte
	for _, text := range texts {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	sum := sha256.Sum256(b)
	return EventIdent(sum[:16])
}

// EventQuery selects events. Empty fields do not restrict; a list means any of its
// members.
type EventQuery struct {
	Account    string // required
	Clusters   []string
	Groups     []string // "core" stands for the empty group
	Versions   []string
	Resources  []string
	Namespaces []string  // "-" stands for cluster-scoped
	Since      time.Time // inclusive
	Until      time.Time // exclusive
	Full       bool      // with bodies
	Limit      int       // at most so many; 0 = 100, more than 10,000 is refused
	Continue   string    // of the page before; opaque
}

// EventPage is a part of a list; Continue is empty on the last one. It can be
// shorter than the limit and have a Continue.
type EventPage struct {
	Events   []EventRow
	Continue string
}
