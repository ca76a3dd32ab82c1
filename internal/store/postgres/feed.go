// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
	"synchronizer/internal/store/walk"
)

// Position implements synchronizer.Feed.
func (db *DB) Position(ctx context.Context, account string) (position int64, err error) {
	if _, err := walk.FeedLimit(account, 0); err != nil {
		return 0, err
	}
	err = db.reading(ctx, "reading the change feed", func(r pgx.Tx) error {
		_, _, position, err = feedOf(ctx, r, account)
		return err
	})
	return position, err
}

// feedOf gives an account's number and the ends of its feed, 0 if it is not known.
func feedOf(ctx context.Context, r pgx.Tx, account string) (number int32, floor, position int64, err error) {
	number, known, err := scope{account: account}.number(ctx, r)
	if err != nil || !known {
		return 0, 0, 0, err
	}
	err = r.QueryRow(ctx, "SELECT feed_floor, feed_position FROM accounts WHERE id = $1", number).Scan(&floor, &position)
	return number, floor, position, err
}

// Changes implements synchronizer.Feed.
func (db *DB) Changes(ctx context.Context, account string, after int64, limit int) (changes []synchronizer.Change, err error) {
	if limit, err = walk.FeedLimit(account, limit); err != nil {
		return nil, err
	}
	var refused error
	err = db.reading(ctx, "reading the change feed", func(r pgx.Tx) error {
		number, floor, position, err := feedOf(ctx, r, account)
		if err != nil {
			return err
		}
		if refused = walk.CheckPlace(after, floor, position); refused != nil || after == position {
			return nil
		}
		rows, err := r.Query(ctx, `SELECT h.pos, h.op, h.at, h.gen, h.seq, h.ns, h.name, c.name, k.grp, k.version, k.resource
			FROM (SELECT * FROM changes WHERE account = $1 AND pos > $2 ORDER BY pos LIMIT $3) h
			JOIN clusters c ON c.id = h.cluster LEFT JOIN kinds k ON k.id = h.kind ORDER BY h.pos`, number, after, limit)
		if err != nil {
			return err
		}
		changes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (synchronizer.Change, error) {
			return scanChange(row, account)
		})
		return err
	})
	if refused != nil {
		return nil, refused
	}
	return changes, err
}

func scanChange(row pgx.CollectableRow, account string) (synchronizer.Change, error) {
	var c synchronizer.Change
	var op int16
	var seq int64
	var at pgtype.Timestamptz
	var group, version, resource pgtype.Text
	key := &c.Key
	err := row.Scan(&c.Position, &op, &at, &c.Order.Generation, &seq, &key.Namespace, &key.Name, &key.Cluster, &group, &version, &resource)
	c.Op, c.Order.Seq, c.At = synchronizer.ChangeOp(op), uint64(seq), fromTime(at)
	key.Account, key.Cluster = account, fromText(key.Cluster)
	key.Namespace, key.Name = fromText(key.Namespace), fromText(key.Name)
	key.Kind = synchronizer.Kind{Group: fromText(group.String), Version: fromText(version.String), Resource: fromText(resource.String)}
	return c, err
}

// Sets implements synchronizer.Sets.
func (db *DB) Sets(ctx context.Context, kind synchronizer.ClusterKind) (sets []synchronizer.NamespaceSet, err error) {
	if err := kind.ClusterID.Validate(); err != nil {
		return nil, err
	}
	err = db.reading(ctx, "reading sets of "+kind.Kind.String(), func(r pgx.Tx) error {
		kinds, err := of(kind).kinds(ctx, r, nil)
		if err != nil || len(kinds) == 0 {
			return err
		}
		rows, err := r.Query(ctx, "SELECT ns, h1, h2, objects FROM sets WHERE kind = $1 AND objects > 0 ORDER BY ns", int32(kinds[0].ID))
		if err != nil {
			return err
		}
		sets, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s synchronizer.NamespaceSet, err error) {
			var h1, h2 int64
			err = row.Scan(&s.Namespace, &h1, &h2, &s.Count)
			s.Namespace, s.Hash = fromText(s.Namespace), wholeHash(h1, h2)
			return s, err
		})
		return err
	})
	return sets, err
}
