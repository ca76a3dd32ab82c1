// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Operations in the change feed.
const (
	opPut    = 1
	opDelete = 2
)

// commit writes what is kept per kind and namespace, and the change feed, and
// commits: all in one message, because it holds up the others of the account from
// the first position that it gives.
func (t *tx) commit(ctx context.Context) error {
	statements := append(t.kindStatements(), t.setStatements()...)
	statements = append(statements, t.feedStatements()...)
	statements = append(statements, statement{"committing", commit, nil, -1})
	return t.send(ctx, statements)
}

// kindStatements brings the numbers of kinds up to date.
func (t *tx) kindStatements() []statement {
	type numbers struct {
		objects int64
		last    time.Time
	}
	changed := map[int32]numbers{}
	for i := range t.changed {
		c := &t.changed[i]
		n := changed[c.key.kind]
		n.objects += count(c.after) - count(c.before)
		if c.row.UpdatedAt.After(n.last) {
			n.last = c.row.UpdatedAt
		}
		changed[c.key.kind] = n
	}
	var statements []statement
	for _, kind := range sortedKeys(changed) { // one by one, which locks them in order
		n := changed[kind]
		statements = append(statements, statement{
			"updating a kind",
			"UPDATE kinds SET objects = objects + $2, last_change = greatest(last_change, $3) WHERE id = $1",
			[]any{kind, n.objects, toTime(n.last)},
			1,
		})
	}
	return statements
}

func count(row knownRow) int64 {
	if row.live {
		return 1
	}
	return 0
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// setStatements brings the sets of namespaces up to date: what was in is taken
// out, and what is in is put in, both by XOR.
func (t *tx) setStatements() []statement {
	type space struct {
		kind int32
		ns   string
	}
	type set struct{ h1, h2, objects int64 }
	changed := map[space]set{}
	for i := range t.changed {
		c := &t.changed[i]
		key := space{c.key.kind, c.key.ns}
		s := changed[key]
		for _, row := range []knownRow{c.before, c.after} {
			if row.live {
				s.h1, s.h2 = s.h1^row.h1, s.h2^row.h2
			}
		}
		s.objects += count(c.after) - count(c.before)
		changed[key] = s
	}
	spaces := make([]space, 0, len(changed))
	for key, s := range changed {
		if s != (set{}) {
			spaces = append(spaces, key)
		}
	}
	if len(spaces) == 0 {
		return nil
	}
	slices.SortFunc(spaces, func(a, b space) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.ns, b.ns)) })
	var kinds []int32
	var namespaces []string
	var h1, h2, objects []int64
	for _, key := range spaces {
		s := changed[key]
		kinds, namespaces = append(kinds, key.kind), append(namespaces, toText(key.ns))
		h1, h2, objects = append(h1, s.h1), append(h2, s.h2), append(objects, s.objects)
	}
	return []statement{{
		"updating sets", `INSERT INTO sets AS s (kind, ns, h1, h2, objects)
		SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
		ON CONFLICT (kind, ns) DO UPDATE SET h1 = s.h1 # excluded.h1, h2 = s.h2 # excluded.h2, objects = s.objects + excluded.objects`,
		[]any{kinds, namespaces, h1, h2, objects},
		-1,
	}}
}

// feedColumns are the changes of one account.
type feedColumns struct {
	clusters, kinds, ops []int32
	at                   []pgtype.Timestamptz
	gens, seqs           []int64
	namespaces, names    []string
}

// insertChanges gives positions and writes the feed. Nobody else gives positions
// of the account before this transaction has ended.
const insertChanges = `WITH p AS (UPDATE accounts SET feed_position = feed_position + $2 WHERE id = $1 RETURNING feed_position - $2 AS base)
	INSERT INTO changes (account, pos, cluster, kind, op, at, gen, seq, ns, name)
	SELECT $1, p.base + t.i, t.cluster, t.kind, t.op, t.at, t.gen, t.seq, t.ns, t.name FROM p,
	unnest($3::int[], $4::int[], $5::int[], $6::timestamptz[], $7::bigint[], $8::bigint[], $9::text[], $10::text[])
		WITH ORDINALITY t (cluster, kind, op, at, gen, seq, ns, name, i)`

const shortenFeed = `WITH f AS (UPDATE accounts SET feed_floor = greatest(feed_floor, feed_position - $2) WHERE id = $1 RETURNING feed_floor)
	DELETE FROM changes USING f WHERE account = $1 AND pos <= f.feed_floor`

func (t *tx) feedStatements() []statement {
	feeds := map[int32]*feedColumns{}
	for i := range t.changed {
		c := &t.changed[i]
		f := feeds[c.kind.cluster.account]
		if f == nil {
			f = &feedColumns{}
			feeds[c.kind.cluster.account] = f
		}
		op := int32(opPut)
		if c.row.Deleted() {
			op = opDelete
		}
		f.clusters, f.kinds, f.ops = append(f.clusters, c.kind.cluster.id), append(f.kinds, c.kind.id), append(f.ops, op)
		f.at = append(f.at, toTime(c.row.UpdatedAt))
		f.gens, f.seqs = append(f.gens, c.row.Order.Generation), append(f.seqs, int64(c.row.Order.Seq))
		f.namespaces, f.names = append(f.namespaces, toText(c.key.ns)), append(f.names, toText(c.key.name))
	}
	var statements []statement
	for _, account := range sortedKeys(feeds) {
		f := feeds[account]
		n := int64(len(f.ops))
		statements = append(statements, statement{
			"writing the change feed", insertChanges,
			[]any{account, n, f.clusters, f.kinds, f.ops, f.at, f.gens, f.seqs, f.namespaces, f.names},
			n,
		})
		if t.db.feed.due(account, n, t.db.settings.feedLength) {
			statements = append(statements, statement{"shortening the change feed", shortenFeed, []any{account, t.db.settings.feedLength}, -1})
		}
	}
	return statements
}

// feedLengths counts what was added to each feed since it was shortened, so that
// this is done now and then and not by every transaction.
type feedLengths struct {
	mu    sync.Mutex
	added map[int32]int64
}

// due reports whether the feed has to be shortened: a hundredth of its length was
// added.
func (f *feedLengths) due(account int32, n, length int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.added == nil {
		f.added = map[int32]int64{}
	}
	if f.added[account] += n; f.added[account] < max(1, length/100) {
		return false
	}
	f.added[account] = 0
	return true
}
