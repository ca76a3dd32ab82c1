// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"synchronizer"
)

const (
	// postingLimit is up to how many hits of a label in a kind are read and
	// sorted. A label with more is filtered on the walk, where it is found often.
	postingLimit = 1000
	// namespacesPerQuery is how many namespaces are asked for a name at a time.
	namespacesPerQuery = 500
)

const walkColumns = "o.id, o.ns, o.name, o.labels, octet_length(o.body), " + rowColumns

// The statements of a walk; each follows an index.
const (
	walkKind      = "SELECT " + walkColumns + " FROM objects o WHERE o.kind = ? AND (o.ns, o.name) > (?, ?) ORDER BY o.ns, o.name LIMIT ?"
	walkKindStart = "SELECT " + walkColumns + " FROM objects o WHERE o.kind = ? ORDER BY o.ns, o.name LIMIT ?"
	walkNamespace = "SELECT " + walkColumns + " FROM objects o WHERE o.kind = ? AND o.ns = ? AND o.name >= ?%s ORDER BY o.name LIMIT ?"
	walkNames     = "SELECT " + walkColumns + " FROM objects o WHERE o.kind = ? AND o.ns = ? AND o.name IN (?%s) ORDER BY o.name LIMIT ?"
	countLabel    = "SELECT count(*) FROM (SELECT 1 FROM labels WHERE label IN (?%s) AND kind = ? LIMIT ?)"
	walkLabel     = "SELECT " + walkColumns + " FROM labels l CROSS JOIN objects o ON o.id = l.obj WHERE l.label IN (?%s) AND l.kind = ?"
)

// walkNamespaces steps from namespace to namespace along the index, without
// reading what is in them, and tells which have a name that is asked for.
const walkNamespaces = `WITH RECURSIVE n(ns) AS (
	SELECT (SELECT min(ns) FROM objects WHERE kind = ?1 AND ns >= ?2)
	UNION ALL SELECT (SELECT min(ns) FROM objects WHERE kind = ?1 AND ns > n.ns) FROM n WHERE n.ns IS NOT NULL LIMIT ?3)
	SELECT n.ns, EXISTS (SELECT 1 FROM objects o WHERE o.kind = ?1 AND o.ns = n.ns AND %s) FROM n WHERE n.ns IS NOT NULL`

// place is where in a kind a walk begins: behind an object.
type place struct{ ns, name string }

// walk collects one page.
type walk struct {
	tx         *sql.Tx
	filter     *filter
	limit      int
	budget     int // rows that may still be looked at without being returned
	statements map[string]*sql.Stmt

	rows    []synchronizer.Row
	numbers []int64 // ids of rows
	sizes   []int64 // bytes of their bodies
	end     *position
}

func newWalk(tx *sql.Tx, f *filter, limit, budget int) *walk {
	return &walk{tx: tx, filter: f, limit: limit, budget: budget, statements: map[string]*sql.Stmt{}}
}

func (w *walk) close() {
	for _, statement := range w.statements {
		_ = statement.Close()
	}
}

// query calls scan for each row until it returns false.
func (w *walk) query(ctx context.Context, text string, args []any, scan func(*sql.Rows) (bool, error)) error {
	statement := w.statements[text]
	if statement == nil {
		var err error
		if statement, err = w.tx.PrepareContext(ctx, text); err != nil {
			return err
		}
		w.statements[text] = statement
	}
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	for more := true; more && err == nil && rows.Next(); {
		more, err = scan(rows)
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// kinds walks kind after kind, until the page is full or the budget is used up.
func (w *walk) kinds(ctx context.Context, kinds []scopedKind, from *position) error {
	for _, kind := range kinds {
		var after *place
		if from != nil && !from.KindDone && kind.isOf(from) {
			after = &place{from.Namespace, from.Name}
		}
		if err := w.kind(ctx, kind, after); err != nil {
			return err
		}
		if w.end != nil {
			return nil
		}
		if w.budget--; w.budget <= 0 {
			w.endBehind(kind)
			return nil
		}
	}
	return nil
}

func (k *scopedKind) isOf(p *position) bool {
	return k.Account == p.Account && k.Cluster == p.Cluster &&
		k.Kind == synchronizer.Kind{Group: p.Group, Version: p.Version, Resource: p.Resource}
}

func (w *walk) endBehind(kind scopedKind) {
	w.end = &position{
		Account: kind.Account, Cluster: kind.Cluster,
		Group: kind.Group, Version: kind.Version, Resource: kind.Resource, KindDone: true,
	}
}

func (w *walk) endAt(kind scopedKind, p place) {
	w.endBehind(kind)
	w.end.KindDone, w.end.Namespace, w.end.Name = false, p.ns, p.name
}

// cut keeps the first n rows of the page.
func (w *walk) cut(n int) {
	w.rows, w.numbers, w.sizes = w.rows[:n], w.numbers[:n], w.sizes[:n]
	key := w.rows[n-1].Key
	w.endAt(scopedKind{clusterKind: clusterKind{key.ClusterID, key.Kind}}, place{key.Namespace, key.Name})
}

func (w *walk) kind(ctx context.Context, kind scopedKind, after *place) error {
	hashes, few, err := w.rarestLabel(ctx, kind)
	switch {
	case err != nil:
		return err
	case few:
		return w.labelled(ctx, kind, after, hashes)
	case len(w.filter.namespaces) > 0:
		return w.namespaces(ctx, kind, after)
	case w.filter.byName():
		return w.allNamespaces(ctx, kind, after)
	case after == nil:
		return w.scan(ctx, kind, walkKindStart, kind.id)
	default:
		return w.scan(ctx, kind, walkKind, kind.id, after.ns, after.name)
	}
}

// scan walks one range; the limit is the last argument of the text.
func (w *walk) scan(ctx context.Context, kind scopedKind, text string, args ...any) error {
	args = append(args, w.budget+w.limit-len(w.rows)+1)
	return w.query(ctx, text, args, func(rows *sql.Rows) (bool, error) {
		found, err := readFound(rows, kind)
		if err != nil {
			return false, err
		}
		return w.take(kind, found), nil
	})
}

// found is a row of a walk.
type found struct {
	row    synchronizer.Row
	id     int64
	size   int64
	labels string
}

func readFound(rows *sql.Rows, kind scopedKind) (found, error) {
	var f found
	var labels sql.NullString
	var size sql.NullInt64
	f.row.Key.ClusterID, f.row.Key.Kind = kind.ClusterID, kind.Kind
	err := scanRow(rows, &f.row, nil, &f.id, &f.row.Key.Namespace, &f.row.Key.Name, &labels, &size)
	f.labels, f.size = labels.String, size.Int64
	return f, err
}

// take looks at the next row in order and reports whether the walk goes on. A
// match beyond the limit tells that another page follows.
func (w *walk) take(kind scopedKind, f found) bool {
	switch {
	case !w.filter.matches(&f.row, f.labels):
		if w.budget--; w.budget <= 0 {
			w.endAt(kind, place{f.row.Key.Namespace, f.row.Key.Name})
		}
	case len(w.rows) == w.limit:
		w.cut(w.limit)
	default:
		w.rows = append(w.rows, f.row)
		w.numbers = append(w.numbers, f.id)
		w.sizes = append(w.sizes, f.size)
	}
	return w.end == nil
}

// namespaces walks the namespaces that were asked for.
func (w *walk) namespaces(ctx context.Context, kind scopedKind, after *place) error {
	for _, ns := range w.filter.namespaces {
		if after != nil && ns < after.ns {
			continue
		}
		if err := w.namespace(ctx, kind, ns, after); err != nil || w.end != nil {
			return err
		}
	}
	return nil
}

// allNamespaces looks for names in every namespace.
func (w *walk) allNamespaces(ctx context.Context, kind scopedKind, after *place) error {
	type step struct {
		ns  string
		has bool
	}
	condition, names := w.filter.nameCondition()
	text := fmt.Sprintf(walkNamespaces, condition)
	next := ""
	if after != nil {
		next = after.ns
	}
	for {
		var steps []step
		err := w.query(ctx, text, append([]any{kind.id, next, namespacesPerQuery}, names...), func(rows *sql.Rows) (bool, error) {
			var s step
			err := rows.Scan(&s.ns, &s.has)
			steps = append(steps, s)
			return true, err
		})
		if err != nil {
			return err
		}
		for _, s := range steps {
			if s.has {
				if err := w.namespace(ctx, kind, s.ns, after); err != nil || w.end != nil {
					return err
				}
			}
			if w.budget--; w.budget <= 0 {
				return w.endBehindNamespace(ctx, kind, s.ns)
			}
		}
		if len(steps) < namespacesPerQuery {
			return nil
		}
		next = steps[len(steps)-1].ns + "\x00" // the least text behind it
	}
}

// endBehindNamespace ends the page behind the last object of a namespace.
func (w *walk) endBehindNamespace(ctx context.Context, kind scopedKind, ns string) error {
	last := place{ns: ns}
	err := w.query(ctx, "SELECT max(name) FROM objects WHERE kind = ? AND ns = ?", []any{kind.id, ns},
		func(rows *sql.Rows) (bool, error) { return false, rows.Scan(&last.name) })
	w.endAt(kind, last)
	return err
}

// namespace walks one namespace, from the place on if it is in it.
func (w *walk) namespace(ctx context.Context, kind scopedKind, ns string, after *place) error {
	from := w.filter.prefix
	if after != nil && after.ns == ns {
		from = max(from, after.name+"\x00") // the least text behind it
	}
	if len(w.filter.names) > 0 {
		names := w.filter.names
		start, _ := slices.BinarySearch(names, from)
		return w.named(ctx, kind, ns, names[start:])
	}
	if end := w.filter.prefixEnd; end != "" {
		return w.scan(ctx, kind, fmt.Sprintf(walkNamespace, " AND o.name < ?"), kind.id, ns, from, end)
	}
	return w.scan(ctx, kind, fmt.Sprintf(walkNamespace, ""), kind.id, ns, from)
}

// named reads the objects of these names, in parts that keep the texts few.
func (w *walk) named(ctx context.Context, kind scopedKind, ns string, names []string) error {
	for len(names) > 0 && w.end == nil {
		n := min(len(names), 1)
		if len(names) >= 50 {
			n = 50
		}
		args := []any{kind.id, ns}
		for _, name := range names[:n] {
			args = append(args, name)
		}
		if err := w.scan(ctx, kind, fmt.Sprintf(walkNames, strings.Repeat(",?", n-1)), args...); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// rarestLabel gives the index values of the label requirement with the fewest
// hits in the kind; false if none has few.
func (w *walk) rarestLabel(ctx context.Context, kind scopedKind) ([]any, bool, error) {
	fewest := postingLimit + 1
	var rarest []any
	for i := range w.filter.labels {
		requirement := &w.filter.labels[i]
		if requirement.Operator != synchronizer.LabelIn {
			continue
		}
		hashes := make([]any, len(requirement.Values))
		for j, value := range requirement.Values {
			hashes[j] = labelHash(requirement.Key, value)
		}
		args := append(slices.Clone(hashes), kind.id, fewest)
		count := 0
		err := w.query(ctx, fmt.Sprintf(countLabel, strings.Repeat(",?", len(hashes)-1)), args,
			func(rows *sql.Rows) (bool, error) { return false, rows.Scan(&count) })
		if err != nil {
			return nil, false, err
		}
		if count < fewest {
			fewest, rarest = count, hashes
		}
	}
	return rarest, fewest <= postingLimit, nil
}

// labelled reads all rows of a label in the kind and puts them in order.
func (w *walk) labelled(ctx context.Context, kind scopedKind, after *place, hashes []any) error {
	var all []found
	text := fmt.Sprintf(walkLabel, strings.Repeat(",?", len(hashes)-1))
	err := w.query(ctx, text, append(slices.Clone(hashes), kind.id), func(rows *sql.Rows) (bool, error) {
		f, err := readFound(rows, kind)
		if err != nil {
			return false, err
		}
		if key := &f.row.Key; after == nil || cmp.Or(cmp.Compare(key.Namespace, after.ns), cmp.Compare(key.Name, after.name)) > 0 {
			all = append(all, f)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.row.Key.Namespace, b.row.Key.Namespace), cmp.Compare(a.row.Key.Name, b.row.Key.Name))
	})
	for i := range all {
		if i > 0 && all[i].id == all[i-1].id {
			continue // found under two values, as only a collision can be
		}
		if !w.take(kind, all[i]) {
			return nil
		}
	}
	return nil
}
