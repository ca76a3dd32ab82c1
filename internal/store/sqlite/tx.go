// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"synchronizer"
)

var errTxOver = errors.New("using a transaction after its end")

// tx is one write transaction. Since there is one writer, a row that was read
// stays as it is until the transaction ends: there is nothing to lock.
type tx struct {
	writer  *writer // nil after the end
	made    ids     // learnt in this transaction
	known   map[rowKey]knownRow
	touched map[int64]kindChange
	feeds   map[int64]feed // by account
	forget  bool           // a cluster was deleted, and its kinds with it
}

var _ synchronizer.Tx = (*tx)(nil)

// rowKey is the key of objects_key.
type rowKey struct {
	kind     int64
	ns, name string
}

// knownRow is what a write has to know of the row that it replaces; id 0 says
// that there is none.
type knownRow struct {
	id     int64
	labels string
	words  int64 // their sum
	live   bool
}

// kindChange is what the transaction did to a kind's numbers.
type kindChange struct {
	objects    int64
	lastChange int64
}

// Update implements synchronizer.Store. A transaction of this DB inside fn
// would wait for itself until ctx ends.
func (db *DB) Update(ctx context.Context, fn func(synchronizer.Tx) error) error {
	return db.write.run(ctx, func(t *tx) error { return fn(t) })
}

const rowColumns = `o.uid, o.rv, o.checksum, o.offered, o.gen, o.seq, o.updated_at, o.deleted_at, o.state, o.digest`

var selectRows = newMultiRow("reading rows",
	"SELECT k.column1, o.id, o.labels, o.words, "+rowColumns+", CASE WHEN k.column5 THEN o.body END FROM (VALUES ", 5,
	") k CROSS JOIN objects o ON o.kind = k.column2 AND o.ns = k.column3 AND o.name = k.column4", 100, 25, 5)

// Rows implements synchronizer.Tx.
func (t *tx) Rows(ctx context.Context, keys []synchronizer.ObjectKey, bodies []bool) ([]*synchronizer.Row, error) {
	if t.writer == nil {
		return nil, errTxOver
	}
	if len(keys) != len(bodies) {
		return nil, fmt.Errorf("%w: %d keys and %d wishes for bodies", synchronizer.ErrInvalid, len(keys), len(bodies))
	}
	result := make([]*synchronizer.Row, len(keys))
	values := make([]any, 0, len(keys)*5)
	places := make([]rowKey, len(keys))
	for i := range keys {
		if !utf8.ValidString(keys[i].Namespace) || !utf8.ValidString(keys[i].Name) {
			return nil, fmt.Errorf("%w: the key %q is not UTF-8", synchronizer.ErrInvalid, keys[i])
		}
		kind, err := t.kind(ctx, synchronizer.ClusterKind{ClusterID: keys[i].ClusterID, Kind: keys[i].Kind})
		if err != nil {
			return nil, err
		}
		places[i] = rowKey{kind, keys[i].Namespace, keys[i].Name}
		if kind == 0 {
			continue // nothing is stored of the kind
		}
		t.known[places[i]] = knownRow{}
		values = append(values, int64(i), kind, keys[i].Namespace, keys[i].Name, bodies[i])
	}
	err := selectRows.query(ctx, t.writer, values, func(rows *sql.Rows) error {
		var at int
		var known knownRow
		var labels sql.NullString
		var words sql.NullInt64
		row := &synchronizer.Row{}
		if err := scanRow(rows, row, &row.Body, &at, &known.id, &labels, &words); err != nil {
			return err
		}
		row.Key = keys[at]
		known.labels, known.words, known.live = labels.String, words.Int64, !row.Deleted()
		t.known[places[at]] = known
		result[at] = row
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Floors implements synchronizer.Tx.
func (t *tx) Floors(ctx context.Context, kinds []synchronizer.ClusterKind) ([]synchronizer.Order, error) {
	if t.writer == nil {
		return nil, errTxOver
	}
	floors := make([]synchronizer.Order, len(kinds))
	for i := range kinds {
		kind, err := t.kind(ctx, kinds[i])
		if err != nil {
			return nil, err
		}
		var seq int64
		floor := &floors[i]
		if kind != 0 {
			_, err = t.values(ctx, "reading a floor", "SELECT floor_gen, floor_seq FROM kinds WHERE id = ?", []any{kind}, &floor.Generation, &seq)
		} else {
			_, err = t.values(ctx, "reading a floor", "SELECT floor_gen, CASE WHEN floor_gen > 0 THEN -1 ELSE 0 END FROM clusters WHERE account = ? AND name = ?",
				[]any{kinds[i].Account, kinds[i].Cluster}, &floor.Generation, &seq)
		}
		if err != nil {
			return nil, err
		}
		floor.Seq = uint64(seq)
	}
	return floors, nil
}

// scanRow reads the columns before, rowColumns and, unless body is nil, a body.
func scanRow(rows *sql.Rows, row *synchronizer.Row, body *[]byte, before ...any) error {
	if body == nil {
		return scanColumns(rows, row, before, nil)
	}
	return scanColumns(rows, row, before, []any{body})
}

// scanColumns reads the columns before, rowColumns and those after.
func scanColumns(rows *sql.Rows, row *synchronizer.Row, before, after []any) error {
	var seq, updated, deleted int64
	var digest []byte
	into := append(before, &row.UID, &row.ResourceVersion, &row.Checksum, &row.Offered,
		&row.Order.Generation, &seq, &updated, &deleted, &row.State, &digest)
	if err := rows.Scan(append(into, after...)...); err != nil {
		return err
	}
	row.Order.Seq = uint64(seq)
	copy(row.Digest[:], digest)
	row.UpdatedAt, row.DeletedAt = fromMicros(updated), fromMicros(deleted)
	return nil
}

// micros is how times are stored: microseconds since 1970, 0 for no time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
