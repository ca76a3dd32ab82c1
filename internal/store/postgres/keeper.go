// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"synchronizer"
)

// portionRemoved is how many rows are removed in one transaction.
const portionRemoved = 1000

// purgedRow is a tombstone that goes.
type purgedRow struct {
	id    int64
	kind  int32
	order synchronizer.Order
}

// PurgeTombstones implements synchronizer.Keeper. Tombstones that somebody has
// locked stay until the next time.
func (db *DB) PurgeTombstones(ctx context.Context, before time.Time) (int64, error) {
	return db.inPortions(ctx, func(t *tx) (int64, error) {
		var purged []purgedRow
		err := t.query(ctx, "reading tombstones", `SELECT id, kind, gen, seq FROM objects WHERE deleted_at IS NOT NULL AND deleted_at < $1
			LIMIT $2 FOR UPDATE SKIP LOCKED`, []any{toTime(before), portionRemoved}, func(rows pgx.Rows) error {
			var p purgedRow
			var seq int64
			err := rows.Scan(&p.id, &p.kind, &p.order.Generation, &seq)
			p.order.Seq = uint64(seq)
			purged = append(purged, p)
			return err
		})
		if err != nil || len(purged) == 0 {
			return 0, err
		}
		floors := map[int32]synchronizer.Order{}
		ids := make([]int64, len(purged))
		for i, p := range purged {
			ids[i] = p.id
			if p.order.Compare(floors[p.kind]) > 0 {
				floors[p.kind] = p.order
			}
		}
		if err := t.raiseFloors(ctx, floors); err != nil {
			return 0, err
		}
		return int64(len(ids)), t.exec(ctx, "purging tombstones", "DELETE FROM objects WHERE id = ANY($1)", ids)
	})
}

// raiseFloors never lowers one. Sequence numbers have no sign, which SQL does not
// know, so they are compared here.
func (t *tx) raiseFloors(ctx context.Context, floors map[int32]synchronizer.Order) error {
	err := t.query(ctx, "reading floors", "SELECT id, floor_gen, floor_seq FROM kinds WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE",
		[]any{sortedKeys(floors)}, func(rows pgx.Rows) error {
			var kind int32
			var floor synchronizer.Order
			var seq int64
			err := rows.Scan(&kind, &floor.Generation, &seq)
			floor.Seq = uint64(seq)
			if floor.Compare(floors[kind]) > 0 {
				floors[kind] = floor
			}
			return err
		})
	for _, kind := range sortedKeys(floors) {
		if err != nil {
			return err
		}
		err = t.exec(ctx, "raising a floor", "UPDATE kinds SET floor_gen = $2, floor_seq = $3 WHERE id = $1",
			kind, floors[kind].Generation, int64(floors[kind].Seq))
	}
	return err
}

// ExpireEvents implements synchronizer.Keeper.
func (db *DB) ExpireEvents(ctx context.Context, before time.Time) (int64, error) {
	var accounts []int32
	err := db.reading(ctx, "reading accounts", func(r pgx.Tx) error {
		rows, err := r.Query(ctx, "SELECT id FROM accounts ORDER BY id")
		if err != nil {
			return err
		}
		accounts, err = pgx.CollectRows(rows, pgx.RowTo[int32])
		return err
	})
	var total int64
	for _, account := range accounts {
		var n int64
		n, err = db.inPortions(ctx, func(t *tx) (int64, error) {
			return t.remove(ctx, "expiring events", `DELETE FROM events WHERE id = ANY(ARRAY(SELECT id FROM events
				WHERE account = $1 AND at < $2 ORDER BY at, id LIMIT $3 FOR UPDATE SKIP LOCKED))`, account, toTime(before), portionRemoved)
		})
		total += n
		if err != nil {
			break
		}
	}
	return total, err
}

// PruneSources implements synchronizer.Keeper.
func (db *DB) PruneSources(ctx context.Context, before time.Time) (n int64, err error) {
	err = db.update(ctx, func(t *tx) error {
		n, err = t.remove(ctx, "pruning sources", `DELETE FROM sources s WHERE s.used_at < $1
			AND s.generation < (SELECT max(x.generation) FROM sources x WHERE x.cluster = s.cluster)`, toTime(before))
		return err
	})
	return n, err
}

// Unseen implements synchronizer.Keeper.
func (db *DB) Unseen(ctx context.Context, since time.Time) (ids []synchronizer.ClusterID, err error) {
	err = db.reading(ctx, "reading clusters", func(r pgx.Tx) error {
		w := scope{}.conditions(false)
		w.add("c.last_seen < %s", toTime(since))
		w.add("NOT EXISTS (SELECT 1 FROM sources s WHERE s.cluster = c.id AND s.used_at >= %s)", toTime(since))
		rows, err := r.Query(ctx, "SELECT a.name, c.name FROM accounts a JOIN clusters c ON c.account = a.id WHERE true"+w.text.String()+" ORDER BY a.name, c.name", w.args...)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id synchronizer.ClusterID, err error) {
			err = row.Scan(&id.Account, &id.Cluster)
			return synchronizer.ClusterID{Account: fromText(id.Account), Cluster: fromText(id.Cluster)}, err
		})
		return err
	})
	return ids, err
}

// inPortions runs fn in a transaction of its own until it removes less than a
// portion.
func (db *DB) inPortions(ctx context.Context, fn func(*tx) (int64, error)) (total int64, err error) {
	for n := int64(portionRemoved); n >= portionRemoved; {
		err := db.update(ctx, func(t *tx) (err error) {
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
	tag, err := t.conn.Exec(ctx, text, args...)
	if err != nil {
		return 0, t.fail(ctx, doing, err)
	}
	return tag.RowsAffected(), nil
}
