// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"synchronizer"
)

// clusterRow is a cluster that the transaction has locked.
type clusterRow struct {
	id, account int32
	floor       int64
}

// kindRow is a kind of such a cluster; id 0 says that there is none.
type kindRow struct {
	id      int32
	cluster clusterRow
	floor   synchronizer.Order
}

const lockClusters = `SELECT a.name, c.name, c.id, c.account, c.floor_gen
	FROM unnest($1::text[], $2::text[]) k (account, name)
	JOIN accounts a ON a.name = k.account JOIN clusters c ON c.account = a.id AND c.name = k.name
	ORDER BY c.id FOR KEY SHARE OF c`

// lock looks up clusters that the transaction does not know yet, and keeps them
// from being deleted until its end.
func (t *tx) lock(ctx context.Context, ids []synchronizer.ClusterID) error {
	var accounts, names []string
	for _, id := range ids {
		if _, known := t.clusters[id]; !known {
			accounts, names = append(accounts, toText(id.Account)), append(names, toText(id.Cluster))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return t.query(ctx, "locking clusters", lockClusters, []any{accounts, names}, func(rows pgx.Rows) error {
		var id synchronizer.ClusterID
		var c clusterRow
		if err := rows.Scan(&id.Account, &id.Cluster, &c.id, &c.account, &c.floor); err != nil {
			return err
		}
		t.clusters[synchronizer.ClusterID{Account: fromText(id.Account), Cluster: fromText(id.Cluster)}] = c
		return nil
	})
}

// makeClusters is lock, and makes clusters that are not there.
func (t *tx) makeClusters(ctx context.Context, ids []synchronizer.ClusterID) error {
	for _, id := range ids {
		if err := id.Validate(); err != nil {
			return err
		}
		if !utf8.ValidString(id.Account) || !utf8.ValidString(id.Cluster) {
			return fmt.Errorf("%w: the name of cluster %q is not UTF-8", synchronizer.ErrInvalid, id)
		}
	}
	if err := t.lock(ctx, ids); err != nil {
		return err
	}
	var missing []synchronizer.ClusterID
	for _, id := range ids {
		if _, known := t.clusters[id]; !known {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b synchronizer.ClusterID) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Cluster, b.Cluster))
	})
	missing = slices.Compact(missing)
	accounts, names := make([]string, len(missing)), make([]string, len(missing))
	for i, id := range missing {
		accounts[i], names[i] = toText(id.Account), toText(id.Cluster)
	}
	err := t.send(ctx, []statement{
		{"making accounts", "INSERT INTO accounts (name) SELECT DISTINCT k FROM unnest($1::text[]) k ORDER BY k ON CONFLICT DO NOTHING", []any{accounts}, -1},
		{"making clusters", `INSERT INTO clusters (account, name) SELECT a.id, k.name FROM unnest($1::text[], $2::text[]) k (account, name)
			JOIN accounts a ON a.name = k.account ORDER BY a.name, k.name ON CONFLICT DO NOTHING`, []any{accounts, names}, -1},
	})
	if err != nil {
		return err
	}
	return t.lock(ctx, missing)
}

// kindsOf looks up the kinds that the transaction does not know yet.
func (t *tx) kindsOf(ctx context.Context, wanted []synchronizer.ClusterKind) error {
	var clusters []synchronizer.ClusterID
	var missing []synchronizer.ClusterKind
	for _, kind := range wanted {
		if _, known := t.kinds[kind]; !known {
			t.kinds[kind] = &kindRow{}
			missing, clusters = append(missing, kind), append(clusters, kind.ClusterID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := t.lock(ctx, clusters); err != nil {
		return err
	}
	return t.readKinds(ctx, missing)
}

func (t *tx) readKinds(ctx context.Context, wanted []synchronizer.ClusterKind) error {
	var at, clusters []int32
	var groups, versions, resources []string
	for i, kind := range wanted {
		row := t.kinds[kind]
		row.cluster = t.clusters[kind.ClusterID]
		if row.cluster.floor > 0 {
			row.floor = synchronizer.Order{Generation: row.cluster.floor, Seq: maxSeq}
		}
		if row.cluster.id != 0 {
			at, clusters = append(at, int32(i)), append(clusters, row.cluster.id)
			groups = append(groups, toText(kind.Kind.Group))
			versions, resources = append(versions, toText(kind.Kind.Version)), append(resources, toText(kind.Kind.Resource))
		}
	}
	if len(at) == 0 {
		return nil
	}
	return t.query(ctx, "reading kinds", `SELECT w.at, k.id, k.floor_gen, k.floor_seq
		FROM unnest($1::int[], $2::int[], $3::text[], $4::text[], $5::text[]) w (at, cluster, grp, version, resource)
		JOIN kinds k USING (cluster, grp, version, resource)`, []any{at, clusters, groups, versions, resources}, func(rows pgx.Rows) error {
		var place int32
		var row kindRow
		var seq int64
		if err := rows.Scan(&place, &row.id, &row.floor.Generation, &seq); err != nil {
			return err
		}
		row.floor.Seq = uint64(seq)
		known := t.kinds[wanted[place]]
		known.id, known.floor = row.id, row.floor
		return nil
	})
}

// maxSeq is above every sequence number; -1 in the database.
const maxSeq = ^uint64(0)

// makeKinds is kindsOf, and makes kinds that are not there. Another transaction
// that makes the same waits, and finds them.
func (t *tx) makeKinds(ctx context.Context, wanted []synchronizer.ClusterKind) error {
	for _, kind := range wanted {
		if !kind.Kind.Valid() || !utf8.ValidString(kind.Kind.String()) {
			return fmt.Errorf("%w: kind %q", synchronizer.ErrInvalid, kind.Kind)
		}
	}
	if err := t.kindsOf(ctx, wanted); err != nil {
		return err
	}
	var missing []synchronizer.ClusterKind
	var clusters []synchronizer.ClusterID
	for _, kind := range wanted {
		if t.kinds[kind].id == 0 {
			missing, clusters = append(missing, kind), append(clusters, kind.ClusterID)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := t.makeClusters(ctx, clusters); err != nil {
		return err
	}
	var numbers []int32
	var groups, versions, resources []string
	for _, kind := range missing {
		numbers = append(numbers, t.clusters[kind.ClusterID].id)
		groups = append(groups, toText(kind.Kind.Group))
		versions, resources = append(versions, toText(kind.Kind.Version)), append(resources, toText(kind.Kind.Resource))
	}
	// What is made after its cluster was deleted keeps out what was said before.
	err := t.exec(ctx, "making kinds", `INSERT INTO kinds (cluster, grp, version, resource, floor_gen, floor_seq)
		SELECT DISTINCT w.cluster, w.grp, w.version, w.resource, c.floor_gen, CASE WHEN c.floor_gen > 0 THEN -1 ELSE 0 END
		FROM unnest($1::int[], $2::text[], $3::text[], $4::text[]) w (cluster, grp, version, resource) JOIN clusters c ON c.id = w.cluster
		ORDER BY 1, 2, 3, 4 ON CONFLICT DO NOTHING`, numbers, groups, versions, resources)
	if err != nil {
		return err
	}
	return t.readKinds(ctx, missing)
}
