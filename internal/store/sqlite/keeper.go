// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"synchronizer"
)

// portionRemoved is how many rows are removed in one transaction, so that writers
// get their turn.
const portionRemoved = 1000

// PurgeTombstones implements synchronizer.Keeper.
func (db *DB) PurgeTombstones(ctx context.Context, before time.Time) (int64, error) {
	return db.inPortions(ctx, func(t *tx) (int64, error) {
		floors := map[int64]synchronizer.Order{}
		var ids []int64
		err := t.writer.query(ctx, "reading tombstones", "SELECT id, kind, gen, seq FROM objects WHERE deleted_at > 0 AND deleted_at < ? LIMIT ?",
			[]any{micros(before), portionRemoved}, func(rows *sql.Rows) error {
				var id, kind, seq int64
				var order synchronizer.Order
				if err := rows.Scan(&id, &kind, &order.Generation, &seq); err != nil {
					return err
				}
				order.Seq = uint64(seq)
				if order.Compare(floors[kind]) > 0 {
					floors[kind] = order
				}
				ids = append(ids, id)
				return nil
			})
		if err != nil {
			return 0, err
		}
		for kind, floor := range floors {
			if err := t.raiseFloor(ctx, kind, floor); err != nil {
				return 0, err
			}
		}
		for _, id := range ids {
			if err := t.writer.exec(ctx, "purging a tombstone", "DELETE FROM objects WHERE id = ?", id); err != nil {
				return 0, err
			}
		}
		return int64(len(ids)), nil
	})
}

// raiseFloor never lowers one. Sequence numbers have no sign, which SQL does not
// know, so they are compared here.
func (t *tx) raiseFloor(ctx context.Context, kind int64, to synchronizer.Order) error {
	var floor synchronizer.Order
	var seq int64
	if _, err := t.values(ctx, "reading a floor", "SELECT floor_gen, floor_seq FROM kinds WHERE id = ?", []any{kind}, &floor.Generation, &seq); err != nil {
		return err
	}
	floor.Seq = uint64(seq)
	if floor.Compare(to) >= 0 {
		return nil
	}
	return t.writer.exec(ctx, "raising a floor", "UPDATE kinds SET floor_gen = ?, floor_seq = ? WHERE id = ?", to.Generation, int64(to.Seq), kind)
}

// ExpireEvents implements synchronizer.Keeper.
func (db *DB) ExpireEvents(ctx context.Context, before time.Time) (int64, error) {
	var accounts []int64
	err := db.reading(ctx, func(r *sql.Tx) error {
		rows, err := r.QueryContext(ctx, "SELECT id FROM accounts ORDER BY id")
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var account int64
			err = rows.Scan(&account)
			accounts = append(accounts, account)
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	if err != nil {
		return 0, db.failure("reading accounts", contextError(ctx, err))
	}
	var total int64
	for _, account := range accounts {
		n, err := db.inPortions(ctx, func(t *tx) (int64, error) {
			return t.remove(ctx, "expiring events", "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE account = ? AND at < ? ORDER BY at, id LIMIT ?)",
				account, micros(before), portionRemoved)
		})
		if total += n; err != nil {
			return total, err
		}
	}
	return total, nil
}

// PruneSources implements synchronizer.Keeper.
func (db *DB) PruneSources(ctx context.Context, before time.Time) (n int64, err error) {
	err = db.write.run(ctx, func(t *tx) error {
		n, err = t.remove(ctx, "pruning sources", `DELETE FROM sources WHERE used_at < ?
			AND generation < (SELECT max(x.generation) FROM sources x WHERE x.cluster = sources.cluster)`, micros(before))
		return err
	})
	return n, err
}

// Unseen implements synchronizer.Keeper.
func (db *DB) Unseen(ctx context.Context, since time.Time) (ids []synchronizer.ClusterID, err error) {
	err = db.reading(ctx, func(r *sql.Tx) error {
		conditions, args := scope{}.conditions(false)
		rows, err := r.QueryContext(ctx, `SELECT c.account, c.name FROM clusters c WHERE c.last_seen > 0 AND c.last_seen < ?
			AND NOT EXISTS (SELECT 1 FROM sources s WHERE s.cluster = c.id AND s.used_at >= ?)`+conditions+" ORDER BY c.account, c.name",
			append([]any{micros(since), micros(since)}, args...)...)
		if err != nil {
			return err
		}
		for err == nil && rows.Next() {
			var id synchronizer.ClusterID
			err = rows.Scan(&id.Account, &id.Cluster)
			ids = append(ids, id)
		}
		return errors.Join(err, rows.Err(), rows.Close())
	})
	if err != nil {
		return nil, db.failure("reading clusters", contextError(ctx, err))
	}
	return ids, nil
}

// inPortions runs fn in a transaction of its own until it removes less than a
// portion.
func (db *DB) inPortions(ctx context.Context, fn func(*tx) (int64, error)) (total int64, err error) {
	for n := int64(portionRemoved); n >= portionRemoved; {
		err := db.write.run(ctx, func(t *tx) (err error) {
			n, err = fn(t)
			return err
		})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// remove runs a statement and says how many rows it has changed.
func (t *tx) remove(ctx context.Context, doing, text string, args ...any) (int64, error) {
	if err := t.writer.exec(ctx, doing, text, args...); err != nil {
		return 0, err
	}
	return t.number(ctx, doing, "SELECT changes()")
}
