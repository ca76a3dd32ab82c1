// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"synchronizer"
)

// idsLimit bounds how many ids are remembered, some 20 MB.
const idsLimit = 100_000

// ids remembers the numbers of clusters and kinds, which never change.
type ids struct {
	clusters map[synchronizer.ClusterID]int64
	kinds    map[clusterKind]int64 // in a transaction, 0 says that there is none
}

type clusterKind struct {
	synchronizer.ClusterID
	synchronizer.Kind
}

func newIDs() ids {
	return ids{clusters: map[synchronizer.ClusterID]int64{}, kinds: map[clusterKind]int64{}}
}

// merge takes over what a transaction that was committed has learnt.
func (i *ids) merge(other ids) {
	if len(i.clusters)+len(i.kinds) > idsLimit {
		*i = newIDs()
	}
	for id, number := range other.clusters {
		i.clusters[id] = number
	}
	for kind, number := range other.kinds {
		if number != 0 {
			i.kinds[kind] = number
		}
	}
}

// cluster gives the number of a cluster, making the cluster if it is not known.
func (t *tx) cluster(ctx context.Context, id synchronizer.ClusterID) (int64, error) {
	if number, ok := t.writer.committed.clusters[id]; ok {
		return number, nil
	}
	if number, ok := t.made.clusters[id]; ok {
		return number, nil
	}
	if err := id.Validate(); err != nil {
		return 0, err
	}
	if err := t.writer.exec(ctx, "making a cluster",
		"INSERT INTO clusters (account, name) VALUES (?, ?) ON CONFLICT DO NOTHING", id.Account, id.Cluster); err != nil {
		return 0, err
	}
	number, err := t.number(ctx, "reading a cluster", "SELECT id FROM clusters WHERE account = ? AND name = ?", id.Account, id.Cluster)
	if err != nil {
		return 0, err
	}
	t.made.clusters[id] = number
	return number, nil
}

// kind gives the number of a kind of a cluster; 0 if there is none.
func (t *tx) kind(ctx context.Context, key clusterKind) (int64, error) {
	if number, ok := t.writer.committed.kinds[key]; ok {
		return number, nil
	}
	if number, ok := t.made.kinds[key]; ok {
		return number, nil
	}
	number, err := t.number(ctx, "reading a kind", `SELECT k.id FROM clusters c JOIN kinds k ON k.cluster = c.id
		WHERE c.account = ? AND c.name = ? AND k.grp = ? AND k.version = ? AND k.resource = ?`,
		key.Account, key.Cluster, key.Group, key.Version, key.Resource)
	if err != nil {
		return 0, err
	}
	t.made.kinds[key] = number
	return number, nil
}

// makeKind gives the number of a kind of a cluster, making both if needed.
func (t *tx) makeKind(ctx context.Context, key clusterKind) (int64, error) {
	number, err := t.kind(ctx, key)
	if err != nil || number != 0 {
		return number, err
	}
	if !key.Kind.Valid() {
		return 0, fmt.Errorf("%w: kind %q", synchronizer.ErrInvalid, key.Kind)
	}
	cluster, err := t.cluster(ctx, key.ClusterID)
	if err != nil {
		return 0, err
	}
	if err := t.writer.exec(ctx, "making a kind", "INSERT INTO kinds (cluster, grp, version, resource) VALUES (?, ?, ?, ?)",
		cluster, key.Group, key.Version, key.Resource); err != nil {
		return 0, err
	}
	number, err = t.number(ctx, "reading a kind", "SELECT last_insert_rowid()")
	if err != nil {
		return 0, err
	}
	t.made.kinds[key] = number
	return number, nil
}

// number reads one integer; 0 if there is no row.
func (t *tx) number(ctx context.Context, doing, text string, args ...any) (int64, error) {
	statement, err := t.writer.prepared(ctx, text)
	if err != nil {
		return 0, err
	}
	var number int64
	err = statement.QueryRowContext(ctx, args...).Scan(&number)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, failure(doing, t.writer.path, contextError(ctx, err))
	}
	return number, nil
}
