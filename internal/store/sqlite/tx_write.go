// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/store/index"
)

var (
	insertObjects = newMultiRow("inserting rows", `INSERT INTO objects (id, kind, ns, name, uid, rv, checksum, offered,
		gen, seq, updated_at, deleted_at, state, digest, h1, h2, labels, words, body) VALUES `, objectColumns, "", 25, 5)
	insertLabels = newMultiRow("inserting labels", "INSERT OR IGNORE INTO labels (label, kind, obj) VALUES ", 3, "", 100, 25, 5)
	deleteLabels = newMultiRow("deleting labels", "DELETE FROM labels WHERE (label, kind, obj) IN (VALUES ", 3, ")", 100, 25, 5)
	insertWords  = newMultiRow("inserting words", "INSERT OR IGNORE INTO words (word, kind, obj) VALUES ", 3, "", 250, 50, 10)
	deleteWords  = newMultiRow("deleting words", "DELETE FROM words WHERE (word, kind, obj) IN (VALUES ", 3, ")", 100, 25, 5)
)

const objectColumns = 19

const updateObject = `UPDATE objects SET uid = ?, rv = ?, checksum = ?, offered = ?, gen = ?, seq = ?, updated_at = ?,
	deleted_at = ?, state = ?, digest = ?, h1 = ?, h2 = ?, labels = ?, words = ?, body = ? WHERE id = ?`

const touchObject = "UPDATE objects SET gen = ?, seq = ?, offered = ? WHERE id = ?"

// change is one row on its way into the tables.
type change struct {
	row    *synchronizer.Row
	key    rowKey
	before knownRow
	labels string
	words  index.Words
	sum    int64       // of the words
	gone   index.Words // of before, if they were others
	id     int64
}

// termRow is one row of the table labels or words.
type termRow struct{ term, kind, obj int64 }

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
	if err := t.readWords(ctx, changes); err != nil {
		return err
	}
	if err := t.writeObjects(ctx, changes); err != nil {
		return err
	}
	if err := t.writeLabels(ctx, changes); err != nil {
		return err
	}
	if err := t.writeWords(ctx, changes); err != nil {
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
		kind, err := t.makeKind(ctx, synchronizer.ClusterKind{ClusterID: row.Key.ClusterID, Kind: row.Key.Kind})
		if err != nil {
			return nil, err
		}
		changes[i] = change{row: row, key: rowKey{kind, row.Key.Namespace, row.Key.Name}}
		if _, ok := t.known[changes[i].key]; !ok {
			unknown = append(unknown, row.Key)
		}
		if !row.Deleted() && !row.Touched {
			entry := index.OfRow(row)
			changes[i].labels, changes[i].words, changes[i].sum = string(entry.Labels), entry.Words, entry.Words.Sum()
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
	w := t.writer
	background := context.WithoutCancel(ctx) // watching ctx costs a goroutine per statement
	inserts := make([]any, 0, len(changes)*objectColumns)
	for i := range changes {
		c := &changes[i]
		row := c.row
		var labels, words, digest, body any
		if c.labels != "" {
			labels = c.labels
		}
		if c.sum != 0 {
			words = c.sum
		}
		if row.Digest != ([16]byte{}) {
			digest = row.Digest[:]
		}
		h1, h2 := entryHash(&row.Key, row.Digest)
		if row.Body != nil && !row.Deleted() {
			body = string(row.Body)
		}
		values := [...]any{
			row.UID, row.ResourceVersion, row.Checksum, row.Offered, row.Order.Generation, int64(row.Order.Seq),
			micros(row.UpdatedAt), micros(row.DeletedAt), row.State, digest, h1, h2, labels, words, body,
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
	t.known[c.key] = knownRow{id: c.id, labels: c.labels, words: c.sum, live: live}
}

func (t *tx) writeLabels(ctx context.Context, changes []change) error {
	var removed, added []termRow
	for i := range changes {
		c := &changes[i]
		if c.labels == c.before.labels {
			continue
		}
		gone, come := index.Change(index.Labels(c.before.labels).Hashes(), index.Labels(c.labels).Hashes())
		removed, added = c.appendTerms(removed, gone), c.appendTerms(added, come)
	}
	if err := deleteLabels.exec(ctx, t.writer, termValues(removed)); err != nil {
		return err
	}
	return insertLabels.exec(ctx, t.writer, termValues(added))
}

// readWords finds out the words of before, where they were others: those of the
// body that is replaced. That is seldom, and saves to store them.
func (t *tx) readWords(ctx context.Context, changes []change) error {
	for i := range changes {
		c := &changes[i]
		if c.sum == c.before.words || c.before.words == 0 {
			continue
		}
		var body []byte
		if _, err := t.values(ctx, "reading a body", "SELECT body FROM objects WHERE id = ?", []any{c.id}, &body); err != nil {
			return err
		}
		c.gone = index.Of(&c.row.Key, body).Words
	}
	return nil
}

func (t *tx) writeWords(ctx context.Context, changes []change) error {
	var removed, added []termRow
	for i := range changes {
		c := &changes[i]
		if c.sum == c.before.words {
			continue
		}
		gone, come := index.Change(c.gone, c.words)
		removed, added = c.appendTerms(removed, gone), c.appendTerms(added, come)
	}
	if err := deleteWords.exec(ctx, t.writer, termValues(removed)); err != nil {
		return err
	}
	return insertWords.exec(ctx, t.writer, termValues(added))
}

func (c *change) appendTerms(rows []termRow, terms []int64) []termRow {
	for _, term := range terms {
		rows = append(rows, termRow{term, c.key.kind, c.id})
	}
	return rows
}

// termValues are the rows in the order of the table, for neighbours.
func termValues(rows []termRow) []any {
	slices.SortFunc(rows, func(a, b termRow) int {
		return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.kind, b.kind), cmp.Compare(a.obj, b.obj))
	})
	values := make([]any, 0, 3*len(rows))
	for _, row := range rows {
		values = append(values, row.term, row.kind, row.obj)
	}
	return values
}

// entryHash is what an object adds to the set of its namespace.
func entryHash(key *synchronizer.ObjectKey, digest [16]byte) (h1, h2 int64) {
	var set checksum.Set
	set.Add(key.Namespace, key.Name, digest)
	return int64(binary.BigEndian.Uint64(set.Hash[:8])), int64(binary.BigEndian.Uint64(set.Hash[8:]))
}

// nullSum is the sum of words, NULL for none.
func nullSum(words index.Words) any {
	if sum := words.Sum(); sum != 0 {
		return sum
	}
	return nil
}
