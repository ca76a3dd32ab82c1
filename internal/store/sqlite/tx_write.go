// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"synchronizer"
)

var (
	insertObjects = newMultiRow("inserting rows", `INSERT INTO objects (id, kind, ns, name, uid, rv, checksum, offered,
		gen, seq, updated_at, deleted_at, state, labels, body) VALUES `, 15, "", 25, 5)
	insertLabels = newMultiRow("inserting labels", "INSERT OR IGNORE INTO labels (label, kind, obj) VALUES ", 3, "", 100, 25, 5)
	deleteLabels = newMultiRow("deleting labels", "DELETE FROM labels WHERE (label, kind, obj) IN (VALUES ", 3, ")", 100, 25, 5)
	insertChange = newMultiRow("writing the change feed", "INSERT INTO changes (obj, op, at, gen, seq) VALUES ", 5, "", 100, 25, 5)
)

const updateObject = `UPDATE objects SET uid = ?, rv = ?, checksum = ?, offered = ?, gen = ?, seq = ?, updated_at = ?,
	deleted_at = ?, state = ?, labels = ?, body = ? WHERE id = ?`

const touchObject = "UPDATE objects SET gen = ?, seq = ?, offered = ? WHERE id = ?"

// Operations in the change feed.
const (
	opPut    = 1
	opDelete = 2
)

// change is one row on its way into the tables.
type change struct {
	row    *synchronizer.Row
	key    rowKey
	before knownRow
	labels string
	id     int64
}

// labelRow is one row of the table labels.
type labelRow struct{ label, kind, obj int64 }

// Write implements synchronizer.Tx.
func (t *tx) Write(ctx context.Context, rows []synchronizer.Row) error {
	if t.writer == nil {
		return errTxOver
	}
	if len(rows) == 0 {
		return nil
	}
	changes, err := t.changes(ctx, rows)
	if err != nil {
		return err
	}
	if changes, err = t.touchObjects(ctx, changes); err != nil {
		return err
	}
	// In key order, neighbours of the index are written together.
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.key.kind, b.key.kind), cmp.Compare(a.key.ns, b.key.ns), cmp.Compare(a.key.name, b.key.name))
	})
	if err := t.writeObjects(ctx, changes); err != nil {
		return err
	}
	if err := t.writeLabels(ctx, changes); err != nil {
		return err
	}
	return t.writeFeed(ctx, changes)
}

// changes finds out what each row replaces.
func (t *tx) changes(ctx context.Context, rows []synchronizer.Row) ([]change, error) {
	changes := make([]change, len(rows))
	var unknown []synchronizer.ObjectKey
	for i := range rows {
		row := &rows[i]
		kind, err := t.makeKind(ctx, clusterKind{row.Key.ClusterID, row.Key.Kind})
		if err != nil {
			return nil, err
		}
		changes[i] = change{row: row, key: rowKey{kind, row.Key.Namespace, row.Key.Name}}
		if _, ok := t.known[changes[i].key]; !ok {
			unknown = append(unknown, row.Key)
		}
		if !row.Deleted() && !row.Touched {
			changes[i].labels = labelsOf(row.Body)
		}
	}
	// The contract says that Rows was asked before. It is for kinds that did not
	// exist then that it was not.
	if _, err := t.Rows(ctx, unknown, make([]bool, len(unknown))); err != nil {
		return nil, err
	}
	for i := range changes {
		changes[i].before = t.known[changes[i].key]
		changes[i].id = changes[i].before.id
	}
	return changes, nil
}

// touchObjects moves rows that were only confirmed on in the order, and returns
// the others.
func (t *tx) touchObjects(ctx context.Context, changes []change) ([]change, error) {
	background := context.WithoutCancel(ctx) // watching ctx costs a goroutine per statement
	written := changes[:0]
	for i := range changes {
		c := changes[i]
		if !c.row.Touched {
			written = append(written, c)
			continue
		}
		if c.id == 0 {
			return nil, fmt.Errorf("%w: %s is confirmed and not stored", synchronizer.ErrInvalid, c.row.Key)
		}
		if i%64 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		order := c.row.Order
		if err := t.writer.exec(background, "confirming a row", touchObject, order.Generation, int64(order.Seq), c.row.Offered, c.id); err != nil {
			return nil, err
		}
	}
	return written, nil
}

func (t *tx) writeObjects(ctx context.Context, changes []change) error {
	const width = 15
	w := t.writer
	background := context.WithoutCancel(ctx) // watching ctx costs a goroutine per statement
	inserts := make([]any, 0, len(changes)*width)
	for i := range changes {
		c := &changes[i]
		row := c.row
		var labels, body any
		if c.labels != "" {
			labels = c.labels
		}
		if row.Body != nil && !row.Deleted() {
			body = string(row.Body)
		}
		values := [...]any{
			row.UID, row.ResourceVersion, row.Checksum, row.Offered, row.Order.Generation, int64(row.Order.Seq),
			micros(row.UpdatedAt), micros(row.DeletedAt), row.State, labels, body,
		}
		if c.id == 0 {
			w.lastObject++
			c.id = w.lastObject
			inserts = append(append(inserts, c.id, c.key.kind, c.key.ns, c.key.name), values[:]...)
		} else {
			if i%64 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := w.exec(background, "updating a row", updateObject, append(values[:], c.id)...); err != nil {
				return err
			}
		}
		t.note(c)
	}
	return insertObjects.exec(ctx, w, inserts)
}

// note keeps the numbers of the kind, and what the row is now.
func (t *tx) note(c *change) {
	live := !c.row.Deleted()
	if t.touched == nil {
		t.touched = map[int64]kindChange{}
	}
	kind := t.touched[c.key.kind]
	switch {
	case live && !c.before.live:
		kind.objects++
	case !live && c.before.live:
		kind.objects--
	}
	kind.lastChange = max(kind.lastChange, micros(c.row.UpdatedAt))
	t.touched[c.key.kind] = kind
	t.known[c.key] = knownRow{id: c.id, labels: c.labels, live: live}
}

func (t *tx) writeLabels(ctx context.Context, changes []change) error {
	var removed, added []labelRow
	for i := range changes {
		c := &changes[i]
		if c.labels == c.before.labels {
			continue
		}
		gone, come := labelChange(labelHashes(c.before.labels), labelHashes(c.labels))
		for _, label := range gone {
			removed = append(removed, labelRow{label, c.key.kind, c.id})
		}
		for _, label := range come {
			added = append(added, labelRow{label, c.key.kind, c.id})
		}
	}
	if err := deleteLabels.exec(ctx, t.writer, labelValues(removed)); err != nil {
		return err
	}
	return insertLabels.exec(ctx, t.writer, labelValues(added))
}

// labelValues are the rows in the order of the table, for neighbours.
func labelValues(rows []labelRow) []any {
	slices.SortFunc(rows, func(a, b labelRow) int {
		return cmp.Or(cmp.Compare(a.label, b.label), cmp.Compare(a.kind, b.kind), cmp.Compare(a.obj, b.obj))
	})
	values := make([]any, 0, 3*len(rows))
	for _, row := range rows {
		values = append(values, row.label, row.kind, row.obj)
	}
	return values
}

func (t *tx) writeFeed(ctx context.Context, changes []change) error {
	values := make([]any, 0, 5*len(changes))
	for i := range changes {
		op := int64(opPut)
		if changes[i].row.Deleted() {
			op = opDelete
		}
		row := changes[i].row
		values = append(values, changes[i].id, op, micros(row.UpdatedAt), row.Order.Generation, int64(row.Order.Seq))
	}
	return insertChange.exec(ctx, t.writer, values)
}

// finish writes what is kept per kind, and shortens the change feed.
func (t *tx) finish(ctx context.Context) error {
	for id, kind := range t.touched {
		if err := t.writer.exec(ctx, "updating a kind",
			"UPDATE kinds SET objects = objects + ?, last_change = max(last_change, ?) WHERE id = ?",
			kind.objects, kind.lastChange, id); err != nil {
			return err
		}
	}
	if len(t.touched) == 0 {
		return nil
	}
	return t.writer.exec(ctx, "shortening the change feed",
		"DELETE FROM changes WHERE pos <= (SELECT max(pos) FROM changes) - ?", t.writer.settings.feedLength)
}
