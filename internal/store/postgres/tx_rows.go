// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
)

const rowColumns = "o.uid, o.rv, o.checksum, o.offered, o.gen, o.seq, o.updated_at, o.deleted_at, o.state, o.digest"

// The rows are locked in the order of their keys, in which every transaction
// locks them.
const lockRows = `SELECT k.at, o.id, o.h1, o.h2, ` + rowColumns + `,
	CASE WHEN k.body THEN o.body::text END, CASE WHEN k.body THEN o.raw END
	FROM unnest($1::int[], $2::int[], $3::text[], $4::text[], $5::bool[]) k (at, kind, ns, name, body)
	JOIN objects o ON o.kind = k.kind AND o.ns = k.ns AND o.name = k.name
	ORDER BY o.kind, o.ns, o.name FOR UPDATE OF o`

// Rows implements synchronizer.Tx.
func (t *tx) Rows(ctx context.Context, keys []synchronizer.ObjectKey, bodies []bool) ([]*synchronizer.Row, error) {
	if t.conn == nil {
		return nil, errTxOver
	}
	if len(keys) != len(bodies) {
		return nil, fmt.Errorf("%w: %d keys and %d wishes for bodies", synchronizer.ErrInvalid, len(keys), len(bodies))
	}
	kinds := make([]synchronizer.ClusterKind, len(keys))
	for i := range keys {
		if !utf8.ValidString(keys[i].Namespace) || !utf8.ValidString(keys[i].Name) {
			return nil, fmt.Errorf("%w: the key %q is not UTF-8", synchronizer.ErrInvalid, keys[i])
		}
		kinds[i] = synchronizer.ClusterKind{ClusterID: keys[i].ClusterID, Kind: keys[i].Kind}
	}
	if err := t.kindsOf(ctx, kinds); err != nil {
		return nil, err
	}
	result := make([]*synchronizer.Row, len(keys))
	places := make([]rowKey, len(keys))
	var at, numbers []int32
	var namespaces, names []string
	var wanted []bool
	for i := range keys {
		kind := t.kinds[kinds[i]].id
		if kind == 0 {
			continue // nothing is stored of the kind
		}
		places[i] = rowKey{kind, keys[i].Namespace, keys[i].Name}
		t.known[places[i]] = knownRow{}
		at, numbers, wanted = append(at, int32(i)), append(numbers, kind), append(wanted, bodies[i])
		namespaces, names = append(namespaces, toText(keys[i].Namespace)), append(names, toText(keys[i].Name))
	}
	if len(at) == 0 {
		return result, nil
	}
	err := t.query(ctx, "reading rows", lockRows, []any{at, numbers, namespaces, names, wanted}, func(rows pgx.Rows) error {
		var place int32
		var known knownRow
		var json pgtype.Text
		var raw []byte
		row := &synchronizer.Row{}
		if err := scanRow(rows, row, []any{&place, &known.id, &known.h1, &known.h2}, &json, &raw); err != nil {
			return err
		}
		row.Key, row.Body = keys[place], fromBody(json, raw)
		known.live = !row.Deleted()
		t.known[places[place]] = known
		result[place] = row
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Floors implements synchronizer.Tx.
func (t *tx) Floors(ctx context.Context, kinds []synchronizer.ClusterKind) ([]synchronizer.Order, error) {
	if t.conn == nil {
		return nil, errTxOver
	}
	// What Rows has looked up is older than the rows that it found missing.
	for _, kind := range kinds {
		delete(t.kinds, kind)
	}
	if err := t.kindsOf(ctx, kinds); err != nil {
		return nil, err
	}
	floors := make([]synchronizer.Order, len(kinds))
	for i, kind := range kinds {
		floors[i] = t.kinds[kind].floor
	}
	return floors, nil
}

// scanRow reads the columns before, rowColumns and those after.
func scanRow(rows pgx.Rows, row *synchronizer.Row, before []any, after ...any) error {
	var seq int64
	var updated, deleted pgtype.Timestamptz
	var digest []byte
	into := append(append(before, &row.UID, &row.ResourceVersion, &row.Checksum, &row.Offered,
		&row.Order.Generation, &seq, &updated, &deleted, &row.State, &digest), after...)
	if err := rows.Scan(into...); err != nil {
		return err
	}
	for _, text := range []*string{&row.UID, &row.ResourceVersion, &row.Checksum, &row.Offered, &row.State} {
		*text = fromText(*text)
	}
	row.Order.Seq = uint64(seq)
	row.UpdatedAt, row.DeletedAt = fromTime(updated), fromTime(deleted)
	copy(row.Digest[:], digest)
	return nil
}
