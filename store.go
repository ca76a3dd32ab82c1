// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"context"
	"crypto/sha256"
	"time"
)

// Store is the database as the ingester writes it. What a row becomes is decided
// by the ingester; the store gives transactions, locks and exact bytes, so that
// every database behaves the same.
type Store interface {
	// Update runs fn in one write transaction and commits it durably if fn returns
	// nil. Deadlocks and serialization failures are retried, so fn may run more
	// than once and must not keep anything of an earlier run. Several goroutines
	// may call it; fn runs in the caller's. An error that wraps ErrInvalid is a
	// fault of the data (find the record by bisecting); every other error is the
	// database's: nothing was written, try again.
	Update(ctx context.Context, fn func(Tx) error) error

	// Close waits for running transactions and closes the database.
	Close() error
}

// Tx is one write transaction. It is used by one goroutine and not after fn has
// returned. After an error of one of its methods, Update fails, whatever fn makes
// of it.
type Tx interface {
	ClusterTx
	ObjectTx
	EventTx
}

// ClusterTx is what a transaction does to clusters. A cluster that is not known is
// created.
type ClusterTx interface {
	// Generations returns the generation of each source, giving a source that the
	// store sees for the first time its cluster's next one, in the order of the
	// slice. A cluster that was deleted is there again with its next new source.
	// One with From set gets no new one, but that of the greatest source in byte order
	// that the cluster then has from From up to and including Source; 0 if it has none.
	Generations(ctx context.Context, sources []ClusterSource) ([]int64, error)

	// SeeClients notes what servers report of connected clients. A cluster that was
	// deleted stays as it is.
	SeeClients(ctx context.Context, seen []ClientSeen) error

	// SeeKinds notes kinds that a client has, whether or not objects of them exist.
	SeeKinds(ctx context.Context, seen []ClusterKind) error
}

// ObjectTx is what a transaction does to objects.
type ObjectTx interface {
	// Rows reads and locks the rows of the keys; the result has one entry per key,
	// at the same place, nil if there is no row. Tombstones are rows. Body is
	// filled only where bodies[i] is true. No key stands twice. A key that is not
	// UTF-8 wraps ErrInvalid.
	Rows(ctx context.Context, keys []ObjectKey, bodies []bool) ([]*Row, error)

	// Floors returns for each kind the order at or below which a statement about an
	// absent object is late: the object was deleted and its tombstone is gone
	// already, or its whole cluster was deleted. Zero where there is none. It is
	// asked after Rows has found objects absent.
	Floors(ctx context.Context, kinds []ClusterKind) ([]Order, error)

	// Write inserts or replaces rows, with their labels and words and one entry each
	// in the change feed; of a Touched row only Order and Offered, and no entry. No
	// key stands twice, and every row that exists was locked by Rows before.
	// UpdatedAt is set by the caller.
	Write(ctx context.Context, rows []Row) error
}

// EventTx is what a transaction does to events.
type EventTx interface {
	// AppendEvents stores events, and tells which are new: an event of the same kind
	// and Ident is stored once for as long as the store keeps it, and stays as it
	// was first.
	AppendEvents(ctx context.Context, events []EventRow) (added []bool, err error)
}

// ClusterKind is one kind of one cluster.
type ClusterKind struct {
	ClusterID
	Kind Kind
}

// Inventory is the database as the ingester reads it to reconcile. Its methods
// may run at the same time as everything else.
type Inventory interface {
	// Clusters is that of Reader.
	Clusters(ctx context.Context, id ClusterID) ([]ClusterStatus, error)

	// Known calls each for every object of a kind that is stored and is no
	// tombstone, in the order (namespace, name), as one snapshot in which every
	// Update is that has returned before. A row has its key, resourceVersion and
	// checksum, and is valid during the call only. An error of each ends it and is
	// returned. A kind or cluster that is not known has no objects.
	Known(ctx context.Context, of ClusterKind, each func(*Row) error) error
}

// ClusterSource is one sender of one cluster.
type ClusterSource struct {
	ClusterID
	Source string
	From   string // see Generations
}

// ClientSeen is what a server reports of a client.
type ClientSeen struct {
	ConnectedClient
	At time.Time
}

// Row is what the backend knows of one object.
type Row struct {
	Key             ObjectKey
	UID             string
	ResourceVersion string // the object's own text
	// Checksum is checksum v1 of Body; Offered is the checksum of the last
	// NewChecksum that led to Body, if it was another one (a stock client's).
	Checksum string
	Offered  string
	// Order is that of the message that made the row what it is.
	Order     Order
	UpdatedAt time.Time
	// DeletedAt is set in a tombstone, which has no body.
	DeletedAt time.Time
	// State is empty, or "not carried: <reason>".
	State string
	Body  []byte // exact bytes, as the client sent them
	// Digest is that of the object as its client computes it, zero if it is not known
	// (link v1). Nobody but the client knows how; it counts in the set of the
	// namespace.
	Digest [16]byte
	// Terms are what Body is found by, for a row given to Write by somebody who has
	// read Body already; nil: the store reads it.
	Terms *Terms
	// Touched marks a row given to Write whose object is as it was: a newer
	// statement has only confirmed it. Body may be nil then.
	Touched bool
}

// Terms are what an object is searched by, as store/index makes it.
type Terms struct {
	Labels string
	Words  []int64
}

// Deleted reports whether the row is a tombstone.
func (r *Row) Deleted() bool { return !r.DeletedAt.IsZero() }

// HashSecret is how access keys and API tokens are kept: they are random and
// long, so one round of SHA-256 is enough.
func HashSecret(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// Credentials keeps access keys of clients and tokens of readers, hashed.
type Credentials interface {
	// AccessKey finds a key by the hash of its secret; ErrNotFound if there is none
	// or it was revoked.
	AccessKey(ctx context.Context, hash [32]byte) (AccessKey, error)
	AddAccessKey(ctx context.Context, hash [32]byte, key AccessKey) error
	// APIToken and AddAPIToken are the same for tokens.
	APIToken(ctx context.Context, hash [32]byte) (APIToken, error)
	AddAPIToken(ctx context.Context, hash [32]byte, token APIToken) error
}

// AccessKey lets clients of an account connect, of one cluster if Cluster is set.
type AccessKey struct {
	Account string
	Cluster string
	Created time.Time
}

// APIToken lets a person or program read (and later command) an account; an
// empty account means all.
type APIToken struct {
	Account string
	Cluster string
	Scope   string // "read", "command" or "admin"
	Created time.Time
}
