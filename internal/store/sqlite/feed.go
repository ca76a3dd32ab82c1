// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/store/walk"
)

// Position implements synchronizer.Feed.
func (db *DB) Position(ctx context.Context, account string) (position int64, err error) {
	if _, err := walk.FeedLimit(account, 0); err != nil {
		return 0, err
	}
	err = db.reading(ctx, func(r *sql.Tx) error {
		_, _, position, err = feedOf(ctx, r, account)
		return err
	})
	if err != nil {
		return 0, db.failure("reading the change feed", contextError(ctx, err))
	}
	return position, nil
}

// feedOf gives an account's number and the ends of its feed, 0 if it is not known.
func feedOf(ctx context.Context, r *sql.Tx, account string) (number, floor, position int64, err error) {
	number, known, err := scope{account: account}.number(ctx, r)
	if err != nil || !known {
		return 0, 0, 0, err
	}
	err = r.QueryRowContext(ctx, "SELECT feed_floor, feed_position FROM accounts WHERE id = ?", number).Scan(&floor, &position)
	return number, floor, position, err
}

const walkChanges = `SELECT h.pos, h.op, h.at, h.gen, h.seq, h.ns, h.name, c.name, k.grp, k.version, k.resource
	FROM changes h CROSS JOIN clusters c ON c.id = h.cluster LEFT JOIN kinds k ON k.id = h.kind
	WHERE h.account = ? AND h.pos > ? ORDER BY h.pos LIMIT ?`

// Changes implements synchronizer.Feed.
func (db *DB) Changes(ctx context.Context, account string, after int64, limit int) (changes []synchronizer.Change, err error) {
	if limit, err = walk.FeedLimit(account, limit); err != nil {
		return nil, err
	}
	var refused error
	err = db.reading(ctx, func(r *sql.Tx) error {
		number, floor, position, err := feedOf(ctx, r, account)
		if err != nil {
			return err
		}
		if refused = walk.CheckPlace(after, floor, position); refused != nil || after == position {
			return nil
		}
		rows, err := r.QueryContext(ctx, walkChanges, number, after, limit)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var c synchronizer.Change
			var op, seq, at int64
			var group, version, resource sql.NullString
			key := &c.Key
			err = rows.Scan(&c.Position, &op, &at, &c.Order.Generation, &seq, &key.Namespace, &key.Name, &key.Cluster, &group, &version, &resource)
			c.Op, c.Order.Seq, c.At = synchronizer.ChangeOp(op), uint64(seq), fromMicros(at)
			key.Account = account
			key.Kind = synchronizer.Kind{Group: group.String, Version: version.String, Resource: resource.String}
			changes = append(changes, c)
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	switch {
	case refused != nil:
		return nil, refused
	case err != nil:
		return nil, db.failure("reading the change feed", contextError(ctx, err))
	}
	return changes, nil
}

const walkSet = "SELECT o.ns, o.h1, o.h2 FROM objects o WHERE o.kind = ? AND o.deleted_at = 0 ORDER BY o.ns"

// Sets implements synchronizer.Sets. It reads an index that has all that is needed.
func (db *DB) Sets(ctx context.Context, kind synchronizer.ClusterKind) (sets []synchronizer.NamespaceSet, err error) {
	if err := kind.ClusterID.Validate(); err != nil {
		return nil, err
	}
	err = db.reading(ctx, func(r *sql.Tx) error {
		kinds, err := of(kind).kinds(ctx, r, nil)
		if err != nil || len(kinds) == 0 {
			return err
		}
		rows, err := r.QueryContext(ctx, walkSet, kinds[0].ID)
		if err != nil {
			return err
		}
		var ns sql.RawBytes
		var h1, h2 int64
		for err == nil && rows.Next() {
			if err = rows.Scan(&ns, &h1, &h2); err != nil {
				break
			}
			if len(sets) == 0 || sets[len(sets)-1].Namespace != string(ns) {
				sets = append(sets, synchronizer.NamespaceSet{Namespace: string(ns)})
			}
			last := &sets[len(sets)-1]
			sum := checksum.Set{Hash: last.Hash, Count: last.Count}
			sum.Merge(checksum.Set{Hash: wholeHash(h1, h2), Count: 1})
			last.Hash, last.Count = sum.Hash, sum.Count
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	if err != nil {
		return nil, db.failure("reading sets of "+kind.Kind.String(), contextError(ctx, err))
	}
	return sets, nil
}

func wholeHash(h1, h2 int64) (hash [16]byte) {
	binary.BigEndian.PutUint64(hash[:8], uint64(h1))
	binary.BigEndian.PutUint64(hash[8:], uint64(h2))
	return hash
}
