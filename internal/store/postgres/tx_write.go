// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"synchronizer"
	"synchronizer/internal/checksum"
	"synchronizer/internal/store/index"
)

// change is one row on its way into the tables.
type change struct {
	row    *synchronizer.Row
	kind   *kindRow
	key    rowKey
	before knownRow
	after  knownRow
	entry  index.Entry
}

// Write implements synchronizer.Tx. All statements go in one message.
func (t *tx) Write(ctx context.Context, rows []synchronizer.Row) error {
	if t.conn == nil {
		return errTxOver
	}
	if len(rows) == 0 {
		return nil
	}
	changes, err := t.changes(ctx, rows)
	if err != nil {
		return err
	}
	var touched, updated, inserted []change
	for _, c := range changes {
		switch {
		case c.row.Touched && c.before.id == 0:
			return fmt.Errorf("%w: %s is confirmed and not stored", synchronizer.ErrInvalid, c.row.Key)
		case c.row.Touched:
			touched = append(touched, c)
		case c.before.id == 0:
			inserted = append(inserted, c)
		default:
			updated = append(updated, c)
		}
	}
	if err := t.number(ctx, inserted); err != nil {
		return err
	}
	written := append(updated[:len(updated):len(updated)], inserted...)
	statements := append(touchRows(touched), updateRows(updated)...)
	statements = append(statements, insertRows(inserted)...)
	if err := t.send(ctx, statements); err != nil {
		return err
	}
	for i := range written {
		c := &written[i]
		c.entry = index.Entry{}
		t.known[c.key] = c.after
		t.changed = append(t.changed, *c)
	}
	return nil
}

// changes finds out what each row replaces, in the order of the keys.
func (t *tx) changes(ctx context.Context, rows []synchronizer.Row) ([]change, error) {
	kinds := make([]synchronizer.ClusterKind, len(rows))
	for i := range rows {
		kinds[i] = synchronizer.ClusterKind{ClusterID: rows[i].Key.ClusterID, Kind: rows[i].Key.Kind}
	}
	if err := t.makeKinds(ctx, kinds); err != nil {
		return nil, err
	}
	changes := make([]change, len(rows))
	var unknown []synchronizer.ObjectKey
	for i := range rows {
		row := &rows[i]
		c := change{row: row, kind: t.kinds[kinds[i]]}
		c.key = rowKey{c.kind.id, row.Key.Namespace, row.Key.Name}
		if _, ok := t.known[c.key]; !ok {
			unknown = append(unknown, row.Key)
		}
		changes[i] = c
	}
	// The contract says that Rows was asked before. It is for kinds that did not
	// exist then that it was not.
	if _, err := t.Rows(ctx, unknown, make([]bool, len(unknown))); err != nil {
		return nil, err
	}
	for i := range changes {
		c := &changes[i]
		c.before = t.known[c.key]
		c.after = knownRow{id: c.before.id}
		if !c.row.Deleted() && !c.row.Touched {
			c.entry = index.OfRow(c.row)
			c.after.live = true
			var set checksum.Set
			set.Add(c.row.Key.Namespace, c.row.Key.Name, c.row.Digest)
			c.after.h1, c.after.h2 = halves(set.Hash)
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.key.kind, b.key.kind), cmp.Compare(a.key.ns, b.key.ns), cmp.Compare(a.key.name, b.key.name))
	})
	return changes, nil
}

// blockSize is how many ids a block of the sequence object_blocks has.
const blockSize = 1024

// idBlock gives ids of objects without asking the database for each.
type idBlock struct {
	mu         sync.Mutex
	next, last int64 // ids from next up to, and without, last are free
}

// number gives ids to rows that are new.
func (t *tx) number(ctx context.Context, changes []change) error {
	block := &t.db.ids
	block.mu.Lock()
	defer block.mu.Unlock()
	for i := range changes {
		if block.next == block.last {
			err := t.query(ctx, "numbering rows", "SELECT nextval('object_blocks')", nil, func(rows pgx.Rows) error {
				var number int64
				err := rows.Scan(&number)
				block.next, block.last = number*blockSize, (number+1)*blockSize
				return err
			})
			if err != nil {
				return err
			}
		}
		changes[i].after.id = block.next
		block.next++
	}
	return nil
}

// columns are the parameters of a statement over rows, one array per column.
type columns struct {
	ids, gens, seqs, h1, h2                                       []int64
	kinds                                                         []int32
	namespaces, names, uids, versions, checksums, offered, states []string
	updated, deleted                                              []pgtype.Timestamptz
	ok                                                            []bool
	digests, raw                                                  [][]byte
	labels, terms, bodies                                         []pgtype.Text
}

func columnsOf(changes []change) *columns {
	var c columns
	for i := range changes {
		change := &changes[i]
		row := change.row
		c.ids = append(c.ids, change.after.id)
		c.kinds = append(c.kinds, change.key.kind)
		c.namespaces, c.names = append(c.namespaces, toText(row.Key.Namespace)), append(c.names, toText(row.Key.Name))
		c.gens, c.seqs = append(c.gens, row.Order.Generation), append(c.seqs, int64(row.Order.Seq))
		c.h1, c.h2 = append(c.h1, change.after.h1), append(c.h2, change.after.h2)
		c.updated, c.deleted = append(c.updated, toTime(row.UpdatedAt)), append(c.deleted, toTime(row.DeletedAt))
		c.uids, c.versions = append(c.uids, toText(row.UID)), append(c.versions, toText(row.ResourceVersion))
		c.checksums, c.offered = append(c.checksums, toText(row.Checksum)), append(c.offered, toText(row.Offered))
		c.states = append(c.states, toText(row.State))
		var digest []byte
		if row.Digest != ([16]byte{}) {
			digest = row.Digest[:]
		}
		c.digests = append(c.digests, digest)
		labels := string(change.entry.Labels)
		c.labels = append(c.labels, pgtype.Text{String: labels, Valid: labels != ""})
		c.terms = append(c.terms, arrayText(termsOf(change.key.kind, &change.entry)))
		var json pgtype.Text
		var raw []byte
		var ok bool
		if !row.Deleted() {
			json, raw, ok = toBody(row.Body)
		}
		c.bodies, c.raw, c.ok = append(c.bodies, json), append(c.raw, raw), append(c.ok, ok)
	}
	return &c
}

func (c *columns) args() []any {
	return []any{
		c.ids, c.kinds, c.namespaces, c.names, c.gens, c.seqs, c.h1, c.h2, c.updated, c.deleted, c.ok,
		c.uids, c.versions, c.checksums, c.offered, c.states, c.digests, c.labels, c.terms, c.bodies, c.raw,
	}
}

// rowArrays is args in SQL. Arrays of arrays have to be of one length, so terms
// come as texts.
const rowArrays = `unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
	$9::timestamptz[], $10::timestamptz[], $11::bool[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
	$17::bytea[], $18::text[], $19::text[], $20::text[], $21::bytea[])
	t (id, kind, ns, name, gen, seq, h1, h2, updated_at, deleted_at, body_ok, uid, rv, checksum, offered, state, digest, labels, terms, body, raw)`

func insertRows(changes []change) []statement {
	if len(changes) == 0 {
		return nil
	}
	const text = `INSERT INTO objects (id, kind, ns, name, gen, seq, h1, h2, updated_at, deleted_at, body_ok,
			uid, rv, checksum, offered, state, digest, labels, terms, body, raw)
		SELECT id, kind, ns, name, gen, seq, h1, h2, updated_at, deleted_at, body_ok,
			uid, rv, checksum, offered, state, digest, labels::json, terms::bigint[], body::json, raw
		FROM ` + rowArrays + ` ON CONFLICT (kind, ns, name) DO NOTHING`
	return []statement{{"inserting rows", text, columnsOf(changes).args(), int64(len(changes))}}
}

func updateRows(changes []change) []statement {
	if len(changes) == 0 {
		return nil
	}
	const text = `UPDATE objects o SET gen = t.gen, seq = t.seq, h1 = t.h1, h2 = t.h2, updated_at = t.updated_at,
			deleted_at = t.deleted_at, body_ok = t.body_ok, uid = t.uid, rv = t.rv, checksum = t.checksum, offered = t.offered,
			state = t.state, digest = t.digest, labels = t.labels::json, terms = t.terms::bigint[], body = t.body::json, raw = t.raw
		FROM ` + rowArrays + ` WHERE o.id = t.id`
	return []statement{{"updating rows", text, columnsOf(changes).args(), int64(len(changes))}}
}

// touchRows moves rows that were only confirmed on in the order.
func touchRows(changes []change) []statement {
	if len(changes) == 0 {
		return nil
	}
	c := columnsOf(changes)
	return []statement{{
		"confirming rows", `UPDATE objects o SET gen = t.gen, seq = t.seq, offered = t.offered
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) t (id, gen, seq, offered) WHERE o.id = t.id`,
		[]any{c.ids, c.gens, c.seqs, c.offered},
		int64(len(changes)),
	}}
}
