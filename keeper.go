// SPDX-License-Identifier: Apache-2.0

package synchronizer

import (
	"context"
	"time"
)

// Keeper is the database as it forgets. Its methods are called now and then by one
// process at a time (more do no harm), run beside everything else in small
// transactions, and say how many they have removed.
type Keeper interface {
	// PurgeTombstones removes tombstones of objects that were deleted before the
	// time, and raises the floor of each kind to the highest order among them.
	PurgeTombstones(ctx context.Context, before time.Time) (int64, error)

	// ExpireEvents removes events that were stored before the time.
	ExpireEvents(ctx context.Context, before time.Time) (int64, error)

	// PruneSources forgets sources that have not spoken since the time (to an hour),
	// but never a cluster's newest. A forgotten source that speaks again is taken for
	// a new one, so the time must be longer ago than the queue keeps records.
	PruneSources(ctx context.Context, before time.Time) (int64, error)

	// Unseen lists clusters of which a connection was reported once, and none since the
	// time, and of which no source has spoken since (to an hour). The caller decides
	// what to delete (Remover).
	Unseen(ctx context.Context, since time.Time) ([]ClusterID, error)
}

// Remover is the database as an administrator clears it.
type Remover interface {
	// DeleteCluster removes everything of a cluster. What its known sources have
	// said and still say is late from then on; it is there again when a new
	// connection speaks for it. ErrNotFound if there is no such cluster.
	DeleteCluster(ctx context.Context, id ClusterID) error

	// DeleteAccount does so for every cluster of the account, and removes its access
	// keys and tokens. ErrNotFound if there is neither.
	DeleteAccount(ctx context.Context, account string) error
}

// Inspector is the database as an administrator looks after it.
type Inspector interface {
	// Stats counts what is stored. It may read all of it.
	Stats(ctx context.Context) (StoreStats, error)

	// Check compares what is stored twice: labels, words and sets with the rows that
	// they stand for, numbers of kinds with the rows, positions of feeds with their
	// entries. It calls each for everything that does not agree, and reads all rows,
	// which takes minutes per million of them.
	Check(ctx context.Context, each func(problem string)) error
}

// StoreStats is what a store holds.
type StoreStats struct {
	Engine        string // "SQLite 3.51.0"
	SchemaVersion int64
	Bytes         int64 // of the database on disk, indexes and all
	Accounts      int64
	Clusters      int64
	Kinds         int64
	Sources       int64
	Objects       int64 // without tombstones
	Tombstones    int64
	Events        int64
	Changes       int64 // in the feeds
	BodyBytes     int64 // of objects, as clients sent them
}
