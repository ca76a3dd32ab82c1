// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"synchronizer"
)

// DeleteCluster implements synchronizer.Remover, in one transaction. Who writes to
// the cluster is waited for; who wants to, waits.
func (db *DB) DeleteCluster(ctx context.Context, id synchronizer.ClusterID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return db.update(ctx, func(t *tx) error {
		clusters, err := t.doomed(ctx, scope{account: id.Account, clusters: []string{id.Cluster}})
		if err != nil {
			return err
		}
		if len(clusters) == 0 {
			return fmt.Errorf("deleting cluster %s: %w", id, synchronizer.ErrNotFound)
		}
		return t.deleteClusters(ctx, clusters)
	})
}

// DeleteAccount implements synchronizer.Remover. The account itself stays, empty, so
// that late records of its clusters are known for what they are.
func (db *DB) DeleteAccount(ctx context.Context, account string) error {
	if account == "" {
		return fmt.Errorf("%w: account is empty", synchronizer.ErrInvalid)
	}
	return db.update(ctx, func(t *tx) error {
		clusters, err := t.doomed(ctx, scope{account: account})
		if err != nil {
			return err
		}
		found := int64(len(clusters))
		for _, table := range []string{"access_keys", "api_tokens"} {
			n, err := t.remove(ctx, "deleting credentials", "DELETE FROM "+table+" WHERE account = $1", toText(account))
			if err != nil {
				return err
			}
			found += n
		}
		if found == 0 {
			return fmt.Errorf("deleting account %s: %w", account, synchronizer.ErrNotFound)
		}
		return t.deleteClusters(ctx, clusters)
	})
}

// doomed locks clusters against everybody.
func (t *tx) doomed(ctx context.Context, s scope) (clusters []clusterRow, err error) {
	w := s.conditions(false)
	err = t.query(ctx, "locking clusters", "SELECT c.id, c.account FROM accounts a JOIN clusters c ON c.account = a.id WHERE true"+
		w.text.String()+" ORDER BY c.id FOR UPDATE OF c", w.args, func(rows pgx.Rows) error {
		var c clusterRow
		err := rows.Scan(&c.id, &c.account)
		clusters = append(clusters, c)
		return err
	})
	return clusters, err
}

func (t *tx) deleteClusters(ctx context.Context, clusters []clusterRow) error {
	for _, c := range clusters {
		const ofKinds = " WHERE kind IN (SELECT id FROM kinds WHERE cluster = $1)"
		statements := []statement{
			{"deleting sets", "DELETE FROM sets" + ofKinds, []any{c.id}, -1},
			{"deleting events", "DELETE FROM events" + ofKinds, []any{c.id}, -1},
			{"deleting objects", "DELETE FROM objects" + ofKinds, []any{c.id}, -1},
			{"deleting changes", "DELETE FROM changes WHERE account = $2 AND cluster = $1", []any{c.id, c.account}, -1},
			{"deleting kinds", "DELETE FROM kinds WHERE cluster = $1", []any{c.id}, -1},
			{"deleting a cluster", `UPDATE clusters SET generation = generation + 1, floor_gen = generation + 1, deleted_at = now(),
				first_seen = NULL, last_seen = NULL, connected_at = NULL, connection_id = '', synchronizer_version = '', helm_version = '',
				git_version = '', cloud_provider = '', cluster_uid = '', resource_group = '' WHERE id = $1`, []any{c.id}, 1},
			{"writing the change feed", insertChanges, []any{
				c.account, int64(1),
				[]int32{c.id},
				[]int32{0},
				[]int32{int32(synchronizer.ChangeClusterDeleted)},
				[]time.Time{time.Now()},
				[]int64{0},
				[]int64{0},
				[]string{""},
				[]string{""},
			}, 1},
		}
		if err := t.send(ctx, statements); err != nil {
			return err
		}
	}
	return nil
}
