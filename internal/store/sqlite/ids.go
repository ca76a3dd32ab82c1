// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"unicode/utf8"

	"synchronizer"
)

// idsLimit bounds how many ids are remembered, some 20 MB.
const idsLimit = 100_000

// ids remembers the numbers of accounts, clusters and kinds. They change only when
// a cluster is deleted, which forgets all of them.
type ids struct {
	accounts map[string]int64
	clusters map[synchronizer.ClusterID]int64
	kinds    map[synchronizer.ClusterKind]int64 // in a transaction, 0 says that there is none
}

func newIDs() ids {
	return ids{accounts: map[string]int64{}, clusters: map[synchronizer.ClusterID]int64{}, kinds: map[synchronizer.ClusterKind]int64{}}
}

// merge takes over what a transaction that was committed has learnt.
func (i *ids) merge(other ids) {
	if len(i.clusters)+len(i.kinds) > idsLimit {
		*i = newIDs()
	}
	for name, number := range other.accounts {
		i.accounts[name] = number
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

// account gives the number of an account, making the account if it is not known.
func (t *tx) account(ctx context.Context, name string) (int64, error) {
	if number, ok := t.writer.committed.accounts[name]; ok {
		return number, nil
	}
	if number, ok := t.made.accounts[name]; ok {
		return number, nil
	}
	if err := t.writer.exec(ctx, "making an account", "INSERT INTO accounts (name) VALUES (?) ON CONFLICT DO NOTHING", name); err != nil {
		return 0, err
	}
	number, err := t.number(ctx, "reading an account", "SELECT id FROM accounts WHERE name = ?", name)
	if err != nil {
		return 0, err
	}
	t.made.accounts[name] = number
	return number, nil
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
	if !utf8.ValidString(id.Account) || !utf8.ValidString(id.Cluster) {
		return 0, fmt.Errorf("%w: the name of cluster %q is not UTF-8", synchronizer.ErrInvalid, id)
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
func (t *tx) kind(ctx context.Context, key synchronizer.ClusterKind) (int64, error) {
	if number, ok := t.writer.committed.kinds[key]; ok {
		return number, nil
	}
	if number, ok := t.made.kinds[key]; ok {
		return number, nil
	}
	number, err := t.number(ctx, "reading a kind", `SELECT k.id FROM clusters c JOIN kinds k ON k.cluster = c.id
		WHERE c.account = ? AND c.name = ? AND k.grp = ? AND k.version = ? AND k.resource = ?`,
		key.Account, key.Cluster, key.Kind.Group, key.Kind.Version, key.Kind.Resource)
	if err != nil {
		return 0, err
	}
	t.made.kinds[key] = number
	return number, nil
}

// makeKind gives the number of a kind of a cluster, making both if needed. What is
// made after its cluster was deleted keeps out what was said before.
func (t *tx) makeKind(ctx context.Context, key synchronizer.ClusterKind) (int64, error) {
	number, err := t.kind(ctx, key)
	if err != nil || number != 0 {
		return number, err
	}
	if !key.Kind.Valid() || !utf8.ValidString(key.Kind.String()) {
		return 0, fmt.Errorf("%w: kind %q", synchronizer.ErrInvalid, key.Kind)
	}
	cluster, err := t.cluster(ctx, key.ClusterID)
	if err != nil {
		return 0, err
	}
	if err := t.writer.exec(ctx, "making a kind", `INSERT INTO kinds (cluster, grp, version, resource, floor_gen, floor_seq)
		SELECT id, ?, ?, ?, floor_gen, CASE WHEN floor_gen > 0 THEN -1 ELSE 0 END FROM clusters WHERE id = ?`,
		key.Kind.Group, key.Kind.Version, key.Kind.Resource, cluster); err != nil {
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
	var number int64
	_, err := t.values(ctx, doing, text, args, &number)
	return number, err
}

// values reads one row; false if there is none.
func (t *tx) values(ctx context.Context, doing, text string, args []any, into ...any) (bool, error) {
	statement, err := t.writer.prepared(ctx, text)
	if err != nil {
		return false, err
	}
	err = statement.QueryRowContext(ctx, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, failure(doing, t.writer.path, contextError(ctx, err))
	}
	return true, nil
}
