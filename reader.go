// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"context"
	"time"
)

// Reader is the database as people read it. Every query is bound to one account
// unless the caller may see all (empty Account).
type Reader interface {
	// Clusters lists clusters, ordered by account and name, with their kinds.
	Clusters(ctx context.Context, id ClusterID) ([]ClusterStatus, error)
	// Objects lists rows in the order (account, cluster, group, version, resource,
	// namespace, name).
	Objects(ctx context.Context, q ObjectQuery) (ObjectPage, error)
	// Object reads one row with its body; ErrNotFound if there is none. A tombstone
	// is found.
	Object(ctx context.Context, key ObjectKey) (*Row, error)
}

// ClusterStatus is one cluster and what is stored of it.
type ClusterStatus struct {
	ClusterID
	Client    ConnectedClient // the newest connection
	FirstSeen time.Time
	LastSeen  time.Time // last report of a server about a connection
	Kinds     []KindStatus
}

// KindStatus is one kind of one cluster.
type KindStatus struct {
	Kind       Kind
	Objects    int64 // without tombstones
	LastChange time.Time
}

// ObjectQuery selects rows. Empty fields do not restrict; a list means any of
// its members.
type ObjectQuery struct {
	Account    string
	Clusters   []string
	Groups     []string // "core" stands for the empty group
	Versions   []string
	Resources  []string
	Namespaces []string // "-" stands for cluster-scoped
	Names      []string
	NamePrefix string
	Labels     []LabelRequirement // all of them
	// Search is words, all of which have to stand in the namespace, the name, label
	// values or images: runs of letters and digits, in either case. Words of one
	// character do not count.
	Search       string
	Deleted      bool // tombstones too
	UpdatedSince time.Time
	Full         bool   // with bodies
	Limit        int    // at most so many rows; 0 = 100, more than 10,000 is refused
	Continue     string // of the page before; opaque
}

// LabelRequirement is one term of a label selector.
type LabelRequirement struct {
	Key      string
	Operator LabelOperator
	Values   []string
}

// LabelOperator is how a term of a label selector compares.
type LabelOperator uint8

// The operators of label selectors, as Kubernetes defines them.
const (
	LabelIn LabelOperator = iota + 1
	LabelNotIn
	LabelExists
	LabelNotExists
)

// ObjectPage is a part of a list; Continue is empty on the last one.
type ObjectPage struct {
	Rows     []Row
	Continue string
}
