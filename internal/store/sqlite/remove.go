// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"synchronizer"
)

// DeleteCluster implements synchronizer.Remover, in one transaction, which keeps
// writers waiting for seconds if the cluster is large.
func (db *DB) DeleteCluster(ctx context.Context, id synchronizer.ClusterID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return db.write.run(ctx, func(t *tx) error {
		clusters, err := t.doomed(ctx, scope{account: id.Account, clusters: []string{id.Cluster}})
		if err != nil {
			return err
		}
		if len(clusters) == 0 {
			return fmt.Errorf("deleting cluster %s: %w", id, synchronizer.ErrNotFound)
		}
		return t.deleteClusters(ctx, id.Account, clusters)
	})
}

// DeleteAccount implements synchronizer.Remover. The account itself stays, empty, so
// that late records of its clusters are known for what they are.
func (db *DB) DeleteAccount(ctx context.Context, account string) error {
	if account == "" {
		return fmt.Errorf("%w: account is empty", synchronizer.ErrInvalid)
	}
	return db.write.run(ctx, func(t *tx) error {
		clusters, err := t.doomed(ctx, scope{account: account})
		if err != nil {
			return err
		}
		found := int64(len(clusters))
		for _, table := range []string{"access_keys", "api_tokens"} {
			n, err := t.remove(ctx, "deleting credentials", "DELETE FROM "+table+" WHERE account = ?", account)
			if err != nil {
				return err
			}
			found += n
		}
		if found == 0 {
			return fmt.Errorf("deleting account %s: %w", account, synchronizer.ErrNotFound)
		}
		return t.deleteClusters(ctx, account, clusters)
	})
}

func (t *tx) doomed(ctx context.Context, s scope) (clusters []int64, err error) {
	conditions, args := s.conditions(false)
	err = t.writer.query(ctx, "reading clusters", "SELECT c.id FROM clusters c WHERE true"+conditions, args, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		clusters = append(clusters, id)
		return err
	})
	return clusters, err
}

func (t *tx) deleteClusters(ctx context.Context, account string, clusters []int64) error {
	if len(clusters) == 0 {
		return nil
	}
	number, err := t.account(ctx, account)
	if err != nil {
		return err
	}
	now := micros(time.Now())
	for _, cluster := range clusters {
		for _, table := range []string{"labels", "words", "events", "objects"} {
			if err := t.writer.exec(ctx, "deleting "+table, "DELETE FROM "+table+" WHERE kind IN (SELECT id FROM kinds WHERE cluster = ?)", cluster); err != nil {
				return err
			}
		}
		position, err := t.position(ctx, number)
		if err != nil {
			return err
		}
		for _, step := range []struct {
			doing, text string
			args        []any
		}{
			{"deleting changes", "DELETE FROM changes WHERE account = ? AND cluster = ?", []any{number, cluster}},
			{"deleting kinds", "DELETE FROM kinds WHERE cluster = ?", []any{cluster}},
			{"deleting a cluster", `UPDATE clusters SET generation = generation + 1, floor_gen = generation + 1, deleted_at = ?,
				first_seen = 0, last_seen = 0, connected_at = 0, connection_id = '', synchronizer_version = '', helm_version = '',
				git_version = '', cloud_provider = '', cluster_uid = '', resource_group = '' WHERE id = ?`, []any{now, cluster}},
			{
				"writing the change feed", insertChange.texts[1],
				[]any{number, position, cluster, 0, int64(synchronizer.ChangeClusterDeleted), now, 0, 0, "", ""},
			},
		} {
			if err := t.writer.exec(ctx, step.doing, step.text, step.args...); err != nil {
				return err
			}
		}
	}
	t.forget = true // numbers of kinds are no longer what they were
	return nil
}
